// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// available reports whether the conditions Connected and Available are True.
func (f *fixture) available() bool {
	cp := f.controlPlane()
	return conditions.IsTrue(cp, infrav1.ConnectedCondition) && conditions.IsTrue(cp, infrav1.AvailableCondition)
}

// setConnected is what a pass with a connection reports.
func (f *fixture) setConnected() {
	f.Helper()
	cp := f.controlPlane()
	for _, condition := range []string{infrav1.ConnectedCondition, infrav1.AvailableCondition} {
		conditions.Set(cp, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: condition})
	}
	if err := f.store.Status().Update(f.Context(), cp); err != nil {
		f.Fatal(err)
	}
}

// TestRestartKeepsAvailable checks that a manager that starts and has no connection yet leaves Available as it is, whether the
// API server is being asked or does not answer. After a minute, the condition reports that the connection is missing.
func TestRestartKeepsAvailable(t *testing.T) {
	for title, config := range map[string]string{
		"it has not answered": newAPIServer(t, workload.Connecting).kubeconfig("token: " + kubeconfigs.Canary),
		"it does not answer":  newAPIServer(t, workload.Unreachable).kubeconfig("token: " + kubeconfigs.Canary),
	} {
		t.Run(title, func(t *testing.T) {
			withFixture(t, &config, func(f *fixture) {
				f.connect()
				f.setConnected()
				f.restart()
				for began := time.Now(); time.Since(began) < 55*time.Second; time.Sleep(time.Second) {
					s := f.connect()
					if o := s.outcomes[infrav1.ConnectedCondition]; o.Kind != outcome.Retry || s.blockedByConnection().Kind != outcome.Retry || !f.available() {
						t.Fatalf("after %v: %+v", time.Since(began), o)
					}
				}
				time.Sleep(5 * time.Second)
				s := f.connect()
				if o := s.outcomes[infrav1.ConnectedCondition]; o.Reason != infrav1.ConnectionDownReason || s.blockedByConnection().Kind != outcome.Blocked || f.available() {
					t.Errorf("after a minute: %+v", o)
				}
				f.setConnected()
				f.manager.memory(s).outage = outcome.Outage{} // it was connected again
				f.connect()
				if !f.available() {
					t.Error("the next outage is not bridged")
				}
			})
		})
	}
}
