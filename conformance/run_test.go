// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/profile"
)

// TestEmulator runs all checks at emulators with the usual options.
func TestEmulator(t *testing.T) { runAll(t) }

// deviates is the profile of portals that do not follow the specification everywhere: they check rules in the job, answer late and send pages.
const deviates = "cloudstack"

// TestProfiles runs the suite at a portal of every other shipped profile, because each of them follows the specification.
func TestProfiles(t *testing.T) {
	for _, name := range profile.Names() {
		if name == deviates {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p, err := profile.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			r := runAll(t, func(o *emulator.Options) {
				users, volumes := o.Users, o.VolumesPerCluster
				p.Apply(o)
				o.Users, o.VolumesPerCluster, o.Seed = users, volumes, 1
			})
			if report := newReport(name, r, nil, nil); len(report.Passed) < 145 || len(r) != len(checks()) {
				t.Error(report.counts())
			}
		})
	}
}

// runAll runs each check at an emulator of its own, whose options may be changed. Clusters that are left in its records are a failure. Checks
// of the client get an emulator with the usual options, because they are not about the portal.
func runAll(t *testing.T, changes ...func(*emulator.Options)) results {
	r := results{}
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			changes := changes
			if strings.HasPrefix(c.name, "client/") {
				changes = nil
			}
			synctest.Test(t, func(t *testing.T) {
				s := emulated(t, changes...)
				r[c.name] = s.try(c.run)
				for _, failure := range r[c.name].failures {
					t.Error(failure)
				}
				s.books.ClearFaults()
				time.Sleep(time.Hour) // until all jobs have ended
				left := s.tidy()
				for _, cluster := range s.books.Clusters() {
					if cluster.State != emulator.ClusterFailed {
						t.Errorf("cluster %s is left, and the suite reports %q", cluster.Name, left)
					}
				}
			})
			if why := r[c.name].skipped; why != "" {
				t.Skip(why)
			}
		})
	}
	return r
}

// TestAttempt checks how a check may end: a failure stays, whatever follows, and a panic is a failure.
func TestAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		run     func(*probe)
		outcome outcome
		details []string
	}{
		"nothing to say": {func(*probe) {}, passed, nil},
		"two failures":   {func(p *probe) { p.Errorf("%d", 1); p.Fatal(2); p.Error(3) }, failed, []string{"1", "2"}},
		"ended at once":  {func(p *probe) { p.Fatalf("%d", 1); p.Error(2) }, failed, []string{"1"}},
		"skipped":        {func(p *probe) { p.skip("why"); p.Error("never") }, skipped, []string{"why"}},
		"failed before":  {func(p *probe) { p.Error(1); p.skip("why") }, failed, []string{"1"}},
		"panic":          {func(*probe) { panic("odd") }, failed, []string{"the check does not understand the portal: odd"}},
	} {
		a := (&site{}).try(test.run)
		if a.outcome() != test.outcome || !slices.Equal(a.details(), test.details) {
			t.Errorf("%s: %s, %q", name, a.outcome(), a.details())
		}
	}
}

// emulated returns a site at a fresh emulator with open records. Its secrets belong to the test only.
func emulated(t *testing.T, changes ...func(*emulator.Options)) *site {
	t.Helper()
	seed := base32.StdEncoding.EncodeToString([]byte("conformance suite"))
	seed = seed[:len(seed)-len(seed)%8]
	users := map[role]*user{
		anyone:    {email: "admin@portal.example", password: conceal("one of the suite")},
		ordinary:  {email: "user@portal.example", password: conceal("two of the suite")},
		withMFA:   {email: "mfa@portal.example", password: conceal("three of the suite"), seed: conceal(seed)},
		stranger:  {email: "other@portal.example", password: conceal("four of the suite")},
		colleague: {email: "colleague@portal.example", password: conceal("five of the suite")},
	}
	known := func(r role, as emulator.Role, account string) emulator.User {
		u := users[r]
		return emulator.User{Email: u.email, Password: u.password.reveal(), TOTPSeed: u.seed.reveal(), Role: as, Account: account}
	}
	options := emulator.Options{
		Users: []emulator.User{
			known(anyone, emulator.RoleAdministrator, "main"), known(ordinary, emulator.RoleUser, "main"),
			known(withMFA, emulator.RoleUser, "main"), known(stranger, emulator.RoleUser, "other"),
			known(colleague, emulator.RoleUser, "main"),
		},
		VolumesPerCluster: 1,
	}
	for _, change := range changes {
		change(&options)
	}
	p, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	users[administrator] = users[anyone]
	own := Defaults()
	own.URL, own.Create, own.Exhaust = p.URL(), true, true
	own.Zone, own.ServiceOffering, own.SSHKeyPair, own.VPC = "zone-1", "offering-1", "key", "default"
	own.Tier.PerMinute = cmp.Or(options.RateLimit.PerMinute, own.Tier.PerMinute)
	own.Tier.Burst = cmp.Or(options.RateLimit.Burst, own.Tier.Burst)
	own.Tier.Workers = cmp.Or(options.MaxWorkers, own.Tier.Workers)
	return &site{
		Options: own, via: p.Transport(), users: users, books: p, options: options, made: map[string]*creation{}, shapes: map[string]string{},
		kit: realKit(), virtual: true,
		neighbours: slices.ContainsFunc(options.Faults, func(f emulator.Fault) bool { return f.OthersPerMinute > 0 }),
	}
}

// TestReport checks that the verdict is the worst effect of all failures, and that both formats agree.
func TestReport(t *testing.T) {
	for verdict, failures := range map[Effect][]string{
		Works:       {"errors/requestId differs between requests"},
		NeedsPerson: {"errors/requestId differs between requests", "gap/created id"},
		Fails:       {"gap/created id", "endpoints/POST kubernetes-clusters"},
	} {
		r := results{"login/token is a JWT": {}, "limits/a burst of 50": {skipped: "counts"}}
		for _, name := range failures {
			r[name] = &attempt{failures: []string{"a | b"}}
		}
		out := newReport("https://portal.example", r, map[string]string{"list": "bare"}, []string{"cluster x"})
		text := out.Markdown()
		if out.Verdict != verdict || !strings.Contains(text, out.Summary) {
			t.Errorf("%v: verdict %q: %s", failures, out.Verdict, out.Summary)
		}
		for _, has := range append(failures, `a \| b`, "| list | bare |", "- cluster x", "| `limits/a burst of 50` | counts |", "not found out") {
			if !strings.Contains(text, has) {
				t.Errorf("the Markdown lacks %q:\n%s", has, text)
			}
		}
		content, err := json.Marshal(out)
		var back Report
		if err != nil || json.Unmarshal(content, &back) != nil || len(back.Failed) != len(failures) || back.Failed[0].Says == nil && strings.HasPrefix(failures[0], "errors/") {
			t.Errorf("%s, %v", content, err)
		}
	}
	if out := newReport("", nil, nil, nil); !strings.Contains(out.Summary, "No check") {
		t.Errorf("nothing was checked: %s", out.Summary)
	}
}

// TestPortalURL checks that no URL sends the password in plain text, and that the error does not repeat a password of the URL.
func TestPortalURL(t *testing.T) {
	for given, want := range map[string]string{
		"https://portal.example/api":       "https://portal.example/api",
		" https://portal.example/api//\n":  "https://portal.example/api",
		"http://portal.example/api":        "",
		"https:///api":                     "",
		"https://me:canary@portal.example": "",
		"https://portal.example/%":         "",
	} {
		got, err := portalAt(given)
		if got != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
}

// TestSecretsDoNotPrint checks that no printed user shows a secret.
func TestSecretsDoNotPrint(t *testing.T) {
	u := &user{email: "e", password: conceal("canary"), seed: conceal("canary"), token: conceal("canary")}
	shown := &answer{status: 400, raw: []byte(`{"error":{"message":"canary"}}`), hide: (&site{users: map[role]*user{anyone: u}}).hide}
	for _, text := range append(printed(u, *u, u.password), shown.shown()) {
		if strings.Contains(text, "canary") {
			t.Error(text)
		}
	}
}

func printed(values ...any) (out []string) {
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			out = append(out, fmt.Sprintf(verb, value))
		}
	}
	return out
}
