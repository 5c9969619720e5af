// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestAtPortal runs the suite at a portal over TLS without access to its records, as at a real portal, with and without permission to
// create.
func TestAtPortal(t *testing.T) {
	if *portalURL != "" {
		t.Skip("a portal is being checked")
	}
	for name, create := range map[string]bool{"looking": false, "creating": true} {
		t.Run(name, func(t *testing.T) {
			s, portal := portalSite(t, create)
			s.acquaint(t)
			r := newResult()
			runAll(t, r, atSite(s))
			s.tidy(t)
			if left := len(portal.Clusters()); left != 0 {
				t.Errorf("%d clusters are left", left)
			}
			count := r.count()
			if count.passed == 0 || count.unrun != 0 || count.skipped == 0 {
				t.Errorf("%+v", count)
			}
			if made := mutations(portal); (len(made) > 0) != create {
				t.Errorf("accepted: %v", made)
			}
			if create != r.passed("endpoints/POST kubernetes-clusters") {
				t.Error("the creation of a cluster does not depend on -create")
			}
			if got := r.skipped["authentication/a token lives 8 hours"]; !strings.Contains(got, "7h59m0s") {
				t.Errorf("the reason is %q", got)
			}
		})
	}
}

// mutations returns the requests that created or changed something, and those that asked for a creation.
func mutations(p *emulator.Portal) []string {
	made := map[string]bool{}
	for _, e := range p.RequestLog() {
		harmless := e.Route == "/login" || strings.HasPrefix(e.Route, "/mfa/")
		asked := e.Route == "/vpcs" || e.Route == "/networks" || e.Route == "/kubernetes-clusters"
		if e.IsRequest() && e.Method != "GET" && (e.Status < 300 || asked) && !harmless {
			made[e.String()] = true
		}
	}
	return slices.Collect(maps.Keys(made))
}

// portalSite returns a listening emulator that hides its records and faults. It is fast, and its rate limit is high.
func portalSite(t *testing.T, create bool) (*site, *emulator.Portal) {
	t.Helper()
	soon := 20 * time.Millisecond
	p := newEmulator(t, emulator.Options{
		Durations: emulator.Durations{Pending: soon, Create: soon, Scale: soon, Upgrade: soon, Delete: soon, VPC: soon},
		RateLimit: emulator.RateLimit{PerMinute: 60000, Burst: 5000},
		BasePath:  "/api",
	})
	if err := p.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	address, password := p.Credentials()
	return &site{
		base: p.URL(), via: network(t, p.CAPEM()), users: map[role]*user{anyone: {email: address, password: conceal(password)}},
		made: map[string]*creation{}, shapes: map[string]string{}, tier: tier{perMinute: 60000, burst: 5000, workers: 50}, poll: 10 * time.Millisecond, create: create,
		wish: wish{zone: "z", offering: "o", sshKey: "k", vpc: "default", cidr: "10.250.0.0/24"},
	}, p
}

// TestSecretsDoNotPrint checks that neither the flags nor a printed user shows a secret.
func TestSecretsDoNotPrint(t *testing.T) {
	flag.VisitAll(func(f *flag.Flag) {
		if strings.Contains(f.Name, "password") || strings.Contains(f.Name, "seed") {
			t.Errorf("flag -%s would show a secret in the list of processes", f.Name)
		}
	})
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
