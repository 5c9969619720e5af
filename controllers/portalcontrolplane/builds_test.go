// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/lifecycle"
)

// installed returns what the portal says that all nodes run, or "" if they differ.
func (f *fixture) installed() (version string) {
	for i, n := range f.portal.Clusters()[0].Nodes {
		if i > 0 && n.Version != version {
			return ""
		}
		version = n.Version
	}
	return version
}

// want sets spec.version and takes passes for 20 minutes. While the condition is True, the portal has installed the version.
func (f *fixture) want(version string) *scope {
	f.Helper()
	f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = version })
	var s *scope
	for start := time.Now(); time.Since(start) < 20*time.Minute; time.Sleep(11 * time.Second) {
		s = f.pass()
		if conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) && lifecycle.Equivalent(version, f.installed()) != version {
			f.Fatalf("up to date with %s after %s, and the nodes run %q", version, time.Since(start), f.installed())
		}
	}
	return s
}

// TestNewBuild takes a cluster from build to build of one release. Each build is installed with one request, whether the API server
// and the kubelets show the portal's builds, none, or others.
func TestNewBuild(t *testing.T) {
	noBuild := func(version string) string { v, _, _ := strings.Cut(version, "+"); return v }
	for title, shows := range map[string]func(string) string{
		"shown": nil, "not shown": noBuild, "never shown": func(v string) string { return noBuild(v) + "+k3s1" },
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 2, emulator.Durations{Upgrade: 5 * time.Minute}, emulator.Version{SemanticVersion: before},
					emulator.Version{SemanticVersion: after + "+p1"}, emulator.Version{SemanticVersion: after + "+p2"})
				f.nodes.shows = shows
				for i, version := range []string{after + "+p1", after + "+p2", after + "+p1"} {
					s := f.want(version)
					if answers := f.answers("upgrade"); f.installed() != version || len(answers) != i+1 {
						t.Errorf("the nodes run %q after %d requests, want %s after %d", f.installed(), len(answers), version, i+1)
					}
					// A build that no component shows, or another one than is wanted, is reported, and the upgrade is not repeated.
					o, status := s.outcomes[infrav1.VersionUpToDateCondition], s.ControlPlane.Status.Version
					advice := map[string]string{"not shown": "set spec.version and those of the MachineDeployments to " + after, "never shown": "Set spec.version to " + after + "+k3s1"}[title]
					if o.IsDone() != (advice == "") || !strings.Contains(o.Message, advice) {
						t.Errorf("%s is wanted: %+v", version, o)
					}
					if differs := title == "never shown"; (status == version) == differs || differs && status != after+"+k3s1" {
						t.Errorf("%s is wanted: status %s", version, status)
					}
				}
				if s := f.want(after); s.ControlPlane.Status.Version != after || *s.ControlPlane.Status.UpToDateReplicas != *s.ControlPlane.Status.Replicas {
					t.Errorf("any build: status %+v", s.ControlPlane.Status)
				}
				if answers := f.answers("upgrade"); len(answers) != 3 {
					t.Errorf("%d requests for three upgrades", len(answers))
				}
			})
		})
	}
}

// TestBuildNotOffered wants a build that the portal does not have. The cluster is not reported to run it, and what it runs is named.
func TestBuildNotOffered(t *testing.T) {
	type row struct {
		offered, shown string
		wanted         string
		requests       int
	}
	cases(t, map[string]row{
		"another build":                {after + "+p1", after + "+p1", after + "+p2", 0},
		"the list leaves it open":      {after, after + "+p1", after + "+p2", 0},
		"to a release of which is one": {after, after + "+p1", after + "+p2", 1},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: time.Minute}, emulator.Version{SemanticVersion: before}, emulator.Version{SemanticVersion: test.offered})
		f.nodes.shows = func(v string) string { return strings.ReplaceAll(v, test.offered, test.shown) }
		if test.requests == 0 {
			f.want(test.shown)
		}
		earlier := len(f.answers("upgrade"))
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = test.wanted })
		for range 60 {
			s := f.pass()
			if c := conditions.Get(s.ControlPlane, infrav1.VersionUpToDateCondition); c.Status == "True" || s.ControlPlane.Status.Version == test.wanted && s.Op() == nil && s.serverVersion == test.shown {
				t.Fatalf("reported to run %s: %s, %+v", test.wanted, s.ControlPlane.Status.Version, c)
			}
			time.Sleep(7 * time.Second)
		}
		s := f.pass()
		o := s.outcomes[infrav1.VersionUpToDateCondition]
		if o.Reason != infrav1.VersionNotOfferedReason || !strings.Contains(o.Message, test.offered) || s.ControlPlane.Status.Version != test.shown {
			t.Errorf("status %s, %+v", s.ControlPlane.Status.Version, o)
		}
		if n := len(f.answers("upgrade")) - earlier; n != test.requests {
			t.Errorf("%d requests, want %d", n, test.requests)
		}
		if s := f.want(test.shown); !conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) || s.ControlPlane.Status.Version != test.shown {
			t.Errorf("after the advice was followed: status %s, %+v", s.ControlPlane.Status.Version, s.outcomes[infrav1.VersionUpToDateCondition])
		}
		if n := len(f.answers("upgrade")) - earlier; n != test.requests {
			t.Errorf("%d requests after the advice was followed, want %d", n, test.requests)
		}
	})
}

// TestDisabledVersion: the portal lists the version twice and refuses the first entry. The next request names the other entry. If
// the portal refuses both, the requests back off.
func TestDisabledVersion(t *testing.T) {
	type row struct {
		bothRefused bool
		requests    func(int) bool
	}
	cases(t, map[string]row{
		"the first entry": {false, func(n int) bool { return n == 2 }},
		"both entries":    {true, func(n int) bool { return n > 3 && n < 12 }},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 1, emulator.Durations{Upgrade: time.Minute}, emulator.Version{SemanticVersion: before},
			emulator.Version{SemanticVersion: after, State: "Disabled", Refused: true},
			emulator.Version{SemanticVersion: after, Refused: test.bothRefused})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		s := f.passes(30*time.Minute, 5*time.Second)
		if answers := f.answers("upgrade"); !test.requests(len(answers)) {
			t.Errorf("%d requests: %v", len(answers), answers)
		}
		upgraded := conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) && f.allRun(after)
		if upgraded == test.bothRefused {
			t.Errorf("upgraded: %v; %+v", upgraded, s.outcomes[infrav1.VersionUpToDateCondition])
		}
	})
}
