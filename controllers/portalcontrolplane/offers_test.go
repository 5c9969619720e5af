// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

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
				s := f.passes(30*time.Minute, 5*time.Second)
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

// newScopeFor returns a scope of a control plane that wants the version.
func newScopeFor(version string) *scope {
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name}}
	cp.Spec.Version = version
	s := &scope{Pass: pass.Pass{ControlPlane: cp, Cluster: &clusterv1.Cluster{}}, outcomes: map[string]outcome.Outcome{}}
	s.State, s.Backoff = stateOf(cp), &outcome.Backoff{}
	return s
}
