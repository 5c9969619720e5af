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
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
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

// TestNewBuildOfAnyBuild: spec.version named no build, so the portal chose one. Another build is installed all the same, also after
// a job that failed half way.
func TestNewBuildOfAnyBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: 5 * time.Minute}, emulator.Version{SemanticVersion: before},
			emulator.Version{SemanticVersion: after + "+p1"}, emulator.Version{SemanticVersion: after + "+p2"})
		if s := f.want(after); f.installed() != after+"+p1" || s.ControlPlane.Status.Version != after {
			t.Fatalf("the nodes run %q, status %s", f.installed(), s.ControlPlane.Status.Version)
		}
		f.strike(emulator.Fault{Path: routeUpgrade, Job: emulator.JobFailsHalfway, JobNodes: 1, Count: 1})
		f.want(after + "+p2")
		f.allow(operation.Upgrade)
		if s := f.want(after + "+p2"); f.installed() != after+"+p2" || s.ControlPlane.Status.Version != after+"+p2" {
			t.Errorf("the nodes run %q, status %s", f.installed(), s.ControlPlane.Status.Version)
		}
	})
}

// TestLostUpgradeToBuild loses the answer to the upgrade. Nothing shows builds, so nothing shows that the upgrade is done: it is sent
// again until the portal has answered.
func TestLostUpgradeToBuild(t *testing.T) {
	for title, fault := range map[string]emulator.Fault{"after the work": {Cut: true, After: true}, "before the work": {Cut: true}} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 2, emulator.Durations{Upgrade: time.Minute}, emulator.Version{SemanticVersion: before},
					emulator.Version{SemanticVersion: after + "+p1"}, emulator.Version{SemanticVersion: after + "+p2"})
				f.nodes.shows = func(version string) string { v, _, _ := strings.Cut(version, "+"); return v }
				f.want(after + "+p1")
				fault.Path, fault.Count = routeUpgrade, 1
				f.strike(fault)
				if s := f.want(after + "+p2"); f.installed() != after+"+p2" || s.Op() != nil || s.Record.Version != after+"+p2" {
					t.Errorf("the nodes run %q; %+v", f.installed(), s.outcomes[infrav1.VersionUpToDateCondition])
				}
			})
		})
	}
}

// TestBuildNotOffered wants a build that the portal does not have. The cluster is not reported to run it, and what it runs is named.
func TestBuildNotOffered(t *testing.T) {
	tests := map[string]struct {
		offered, shown string
		wanted         string
		requests       int
	}{
		"another build":                {after + "+p1", after + "+p1", after + "+p2", 0},
		"the list leaves it open":      {after, after + "+p1", after + "+p2", 0},
		"to a release of which is one": {after, after + "+p1", after + "+p2", 1},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}
