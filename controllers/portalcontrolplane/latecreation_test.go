// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// create takes the object one pass further, and returns how long the pass kept a worker.
func (e *estate) create(key client.ObjectKey) (outcome.Outcome, time.Duration) {
	e.Helper()
	began, s := time.Now(), e.scope(key)
	e.must(e.manager.Ownership.Begin(e.Context(), &s.Pass))
	return e.manager.reconcileCluster(e.Context(), s), time.Since(began)
}

// TestLateCreation has the portal answer a creation after more than four minutes. One cluster is created, no person is asked, and the passes that
// see the creation wait keep their worker for a moment only. In this time, a pause does not let the object be moved to another management cluster:
// the answer would be stored here, and the creation lost there.
func TestLateCreation(t *testing.T) {
	manage(t, false, func(e *estate) {
		slow := emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Delay: 280 * time.Second, After: true} // when it has reserved everything
		e.must(e.portal.Inject(slow))
		key := e.add("fleet", "prod", nil)
		waited := 0
		for began := time.Now(); e.get(key).Spec.ClusterID == "" && time.Since(began) < 30*time.Minute; time.Sleep(10 * time.Second) {
			o, took := e.create(key)
			if o.Reason == infrav1.OutcomeUnknownReason || took > 3*time.Second {
				e.Fatalf("after %s, a pass of %s: %s", time.Since(began), took, o.Message)
			}
			s := stateOf(e.get(key))
			if s.Op() == nil || s.Op().JobID != "" {
				continue
			}
			waited++
			e.must(e.manager.writer().UnblockMove(e.Context(), e.get(key)))
			if !blocksMove(e.get(key)) || o.Reason != infrav1.CreatingReason {
				e.Errorf("while the portal does not answer, it may be moved: %t, %+v", !blocksMove(e.get(key)), o)
			}
		}
		if clusters := e.portal.Clusters(); len(clusters) != 1 || e.get(key).Spec.ClusterID != clusters[0].ID || e.asked("POST") != 1 || waited == 0 {
			e.Errorf("%d creations made %v, and the object has %q. %d passes saw the wait", e.asked("POST"), clusters, e.get(key).Spec.ClusterID, waited)
		}
		if blocksMove(e.get(key)) {
			e.Error("it may not be moved after the answer")
		}
	})
}

func blocksMove(cp *infrav1.PortalControlPlane) bool {
	return metav1.HasAnnotation(cp.ObjectMeta, clusterctlv1.BlockMoveAnnotation)
}
