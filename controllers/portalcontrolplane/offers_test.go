// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// offering returns a reconciler and a scope in front of a portal that offers the versions in this order. The id of each is its name.
func offering(t *testing.T, versions ...string) (*Reconciler, *scope) {
	t.Helper()
	options := emulator.Options{Seed: 1, Users: []emulator.User{{Email: "a@portal.example", Password: "secret", Role: emulator.RoleAdministrator}}}
	for _, v := range versions {
		options.Versions = append(options.Versions, emulator.Version{ID: "id-of-" + v, SemanticVersion: v})
	}
	portal, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	client, err := cloud.New(cloud.Config{BaseURL: "https://portal.example", Email: "a@portal.example", Password: "secret", Transport: portal.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	s := newScopeFor("v1.34.9")
	s.Identity = identity.Identity{Portal: client, Version: "1"}
	return &Reconciler{Answers: outcome.NewAnswers()}, s
}

// TestOffered checks which entry of the portal's list is asked for.
func TestOffered(t *testing.T) {
	tests := map[string]struct {
		offers []string
		wanted string
		want   string
	}{
		"build metadata decides":                  {[]string{"v1.34.9+p1", "v1.34.9+p2"}, "v1.34.9+p2", "v1.34.9+p2"},
		"build metadata decides without v":        {[]string{"1.34.9+p1", "1.34.9+p2"}, "v1.34.9+p2", "1.34.9+p2"},
		"v and build metadata before metadata":    {[]string{"1.34.9+p2", "v1.34.9+p2"}, "v1.34.9+p2", "v1.34.9+p2"},
		"no build metadata before any":            {[]string{"v1.34.9+p1", "v1.34.9"}, "v1.34.9", "v1.34.9"},
		"an entry that leaves the build open":     {[]string{"v1.34.9+p1", "v1.34.9"}, "v1.34.9+p3", "v1.34.9"},
		"equally good ones in the portal's order": {[]string{"v1.34.9+p1", "v1.34.9+p2"}, "v1.34.9", "v1.34.9+p1"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, s := offering(t, test.offers...)
				got, o := r.offered(t.Context(), s, test.wanted)
				if !o.IsDone() || got.ID != "id-of-"+test.want {
					t.Errorf("%s (%s), want %s; %+v", got.SemanticVersion, got.ID, test.want, o)
				}
			})
		})
	}
}

// TestNotOffered checks that the message names what the user can set: the portal does not downgrade.
func TestNotOffered(t *testing.T) {
	tests := map[string]struct{ running, want string }{
		"before the creation":  {"", "Set spec.version to one of: v1.33.1, v1.34.9, v1.35.6"},
		"of a running cluster": {"v1.34.9+portal", "Set spec.version to one of: v1.34.9, v1.35.6"},
		"of a newer cluster":   {"v1.36.3", "nor any version from v1.36.3 on"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, s := offering(t, "v1.35.6", "v1.33.1", "1.34.9", "v1.34.9")
				s.serverVersion = test.running
				_, o := r.offered(t.Context(), s, "v1.99.0")
				if o.Reason != infrav1.VersionNotOfferedReason || !strings.Contains(o.Message, test.want) {
					t.Errorf("%s: %q, want %q", o.Reason, o.Message, test.want)
				}
				if test.running != "" && strings.Contains(o.Message, "v1.33.1") {
					t.Errorf("a downgrade is offered: %q", o.Message)
				}
			})
		})
	}
}

// TestDisabledVersion: the portal lists the version twice and refuses the first entry. The next request names the other entry. If
// the portal refuses both, the requests back off.
func TestDisabledVersion(t *testing.T) {
	for title, test := range map[string]struct {
		bothRefused bool
		requests    func(int) bool
	}{
		"the first entry": {false, func(n int) bool { return n == 2 }},
		"both entries":    {true, func(n int) bool { return n > 3 && n < 12 }},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 1, emulator.Durations{Upgrade: time.Minute}, emulator.Version{SemanticVersion: before},
					emulator.Version{SemanticVersion: after, State: "Disabled", Refused: true},
					emulator.Version{SemanticVersion: after, Refused: test.bothRefused})
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				var s *scope
				for start := time.Now(); time.Since(start) < 30*time.Minute; time.Sleep(5 * time.Second) {
					s = f.pass()
				}
				if answers := f.answers("upgrade"); !test.requests(len(answers)) {
					t.Errorf("%d requests: %v", len(answers), answers)
				}
				upgraded := conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition) && f.allRun(after)
				if upgraded == test.bothRefused {
					t.Errorf("upgraded: %v; %+v", upgraded, s.outcomes[infrav1.VersionUpToDateCondition])
				}
			})
		})
	}
}

// TestRefusedCreation checks after which refusals of a creation the next request names another entry of the version.
func TestRefusedCreation(t *testing.T) {
	for title, test := range map[string]struct {
		fault emulator.Fault
		want  bool
	}{
		"the version":       {emulator.Fault{Code: emulator.CodeInvalidParameter, Field: "kubernetesVersionId"}, true},
		"no field is named": {emulator.Fault{Code: emulator.CodeInvalidParameter}, false}, // it may be any other
		"another field":     {emulator.Fault{Code: emulator.CodeInvalidParameter, Field: "sshKeyPair"}, false},
		"the quota":         {emulator.Fault{Code: emulator.CodeQuotaExceeded}, false},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 1, emulator.Durations{})
				test.fault.Method, test.fault.Path = "POST", "/kubernetes-clusters"
				f.strike(test.fault)
				if _, err := f.cloud.CreateCluster(t.Context(), cloud.CreateClusterRequest{Name: "prod-2", KubernetesVersionID: "v"}); err == nil || refusesVersion(err) != test.want {
					t.Errorf("refused: %v, %v", refusesVersion(err), err)
				}
			})
		})
	}
}

// TestRefusalsOfOnePortal: a refusal counts for the identity that the portal refused, and for an hour.
func TestRefusalsOfOnePortal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, one := offering(t, "v1.34.9+p1", "v1.34.9+p2")
		_, other := offering(t, "v1.34.9+p1", "v1.34.9+p2")
		other.Identity.Version = "2"
		chosen := func(s *scope) string {
			t.Helper()
			v, o := r.offered(t.Context(), s, "v1.34.9")
			if !o.IsDone() {
				t.Fatalf("%+v", o)
			}
			return v.SemanticVersion
		}
		r.refuseVersion(one, "id-of-v1.34.9+p1")
		if chosen(one) != "v1.34.9+p2" || chosen(other) != "v1.34.9+p1" {
			t.Errorf("chosen: %s and, at a portal that refused nothing, %s", chosen(one), chosen(other))
		}
		time.Sleep(refusedAge + time.Second)
		if chosen(one) != "v1.34.9+p1" {
			t.Errorf("chosen %s after an hour", chosen(one))
		}
	})
}

// TestNotProposed: a message does not propose what the portal has refused, nor what it lists as disabled.
func TestNotProposed(t *testing.T) {
	versions := []cloud.KubernetesVersion{
		{ID: "a", SemanticVersion: "v1.34.9", State: "Disabled"}, {ID: "b", SemanticVersion: "v1.35.6", State: "deprecated"},
		{ID: "c", SemanticVersion: "v1.36.3"}, {ID: "d", SemanticVersion: "v1.36.3", State: "DISABLED"}, {ID: "e", SemanticVersion: "v1.37.0"},
	}
	s := newScopeFor("v1.99.0")
	s.Identity.Portal = &cloud.Client{}
	r := &Reconciler{Answers: outcome.NewAnswers()}
	synctest.Test(t, func(t *testing.T) {
		outcome.Ask(r.Answers, outcome.Question{Portal: s.Identity.Portal, What: "versions"}, offersAge, func() ([]cloud.KubernetesVersion, outcome.Outcome) {
			return versions, outcome.Outcome{}
		})
		r.refuseVersion(s, "e")
		if _, o := r.offered(t.Context(), s, "v1.99.0"); !strings.HasSuffix(o.Message, "Set spec.version to one of: v1.35.6, v1.36.3") {
			t.Errorf("%q", o.Message)
		}
	})
}

// newScopeFor returns a scope of a control plane that wants the version.
func newScopeFor(version string) *scope {
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name}}
	cp.Spec.Version = version
	s := &scope{Pass: pass.Pass{ControlPlane: cp, Cluster: &clusterv1.Cluster{}}, outcomes: map[string]outcome.Outcome{}}
	s.State, s.Backoff = stateOf(cp), &outcome.Backoff{}
	return s
}
