// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"encoding/base32"
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
