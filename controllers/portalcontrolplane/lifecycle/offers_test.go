// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// newPass returns a pass over a control plane.
func newPass() *pass.Pass {
	p := &pass.Pass{ControlPlane: &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "prod"}}, Cluster: &clusterv1.Cluster{}}
	p.Backoff = &outcome.Backoff{}
	return p
}

// offering returns a reconciler and a scope in front of a portal that offers the versions in this order. The id of each is its name.
func offering(t *testing.T, versions ...string) (*Clusters, *pass.Pass) {
	t.Helper()
	options := emulator.Options{}
	for _, v := range versions {
		options.Versions = append(options.Versions, emulator.Version{ID: "id-of-" + v, SemanticVersion: v})
	}
	p := newPass()
	p.Identity = identity.Identity{Portal: portalWith(t, options), Version: "1"}
	return &Clusters{Answers: outcome.NewAnswers()}, p
}

// portalWith returns a client of a portal with these options.
func portalWith(t *testing.T, options emulator.Options) *cloud.Client {
	t.Helper()
	options.Seed, options.Users = 1, []emulator.User{{Email: "a@portal.example", Password: "secret", Role: emulator.RoleAdministrator}}
	portal, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	client, err := cloud.New(cloud.Config{BaseURL: "https://portal.example", Email: "a@portal.example", Password: "secret", Transport: portal.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	return client
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
				k, p := offering(t, test.offers...)
				got, o := k.Offered(t.Context(), p, Running{Record: &p.Record}, test.wanted)
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
				k, p := offering(t, "v1.35.6", "v1.33.1", "1.34.9", "v1.34.9")
				_, o := k.Offered(t.Context(), p, Running{Record: &p.Record, Server: test.running}, "v1.99.0")
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
				test.fault.Method, test.fault.Path = "POST", "/kubernetes-clusters"
				_, p := offering(t)
				p.Identity.Portal = portalWith(t, emulator.Options{Faults: []emulator.Fault{test.fault}})
				if _, err := p.Identity.Portal.CreateCluster(t.Context(), cloud.CreateClusterRequest{Name: "prod-2", KubernetesVersionID: "v"}); err == nil || refusesVersion(err) != test.want {
					t.Errorf("refused: %v, %v", refusesVersion(err), err)
				}
			})
		})
	}
}

// TestRefusalsOfOnePortal: a refusal counts for the identity that the portal refused, and for an hour.
func TestRefusalsOfOnePortal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, one := offering(t, "v1.34.9+p1", "v1.34.9+p2")
		_, other := offering(t, "v1.34.9+p1", "v1.34.9+p2")
		other.Identity.Version = "2"
		chosen := func(p *pass.Pass) string {
			t.Helper()
			v, o := k.Offered(t.Context(), p, Running{Record: &p.Record}, "v1.34.9")
			if !o.IsDone() {
				t.Fatalf("%+v", o)
			}
			return v.SemanticVersion
		}
		k.refuseVersion(one, "id-of-v1.34.9+p1")
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
	p := newPass()
	p.Identity.Portal = &cloud.Client{}
	k := &Clusters{Answers: outcome.NewAnswers()}
	synctest.Test(t, func(t *testing.T) {
		outcome.Ask(k.Answers, outcome.Question{Portal: p.Identity.Portal, What: "versions"}, offersAge, func() ([]cloud.KubernetesVersion, outcome.Outcome) {
			return versions, outcome.Outcome{}
		})
		k.refuseVersion(p, "e")
		if _, o := k.Offered(t.Context(), p, Running{Record: &p.Record}, "v1.99.0"); !strings.HasSuffix(o.Message, "Set spec.version to one of: v1.35.6, v1.36.3") {
			t.Errorf("%q", o.Message)
		}
	})
}
