// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/workers"
)

// TestClockOfWorkloadCluster: a Node that is being drained and stops being Ready for a moment counts as drained after 5 minutes, when
// Kubernetes has evicted its Pods, and not before, although the clock of the workload cluster differs from the manager's.
func TestClockOfWorkloadCluster(t *testing.T) {
	cases(t, map[string]time.Duration{"the same": 0, "5 minutes behind": 5 * time.Minute, "5 minutes ahead": -5 * time.Minute}, func(t *testing.T, behind time.Duration) {
		f := newFixture(t, 2, emulator.Durations{})
		f.refuseEvictions(apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10), "db-0", "db-1")
		f.workloads.behind = behind
		f.scale(1)
		var draining *corev1.Node
		for began := time.Now(); draining == nil && time.Since(began) < 10*time.Minute; time.Sleep(5 * time.Second) {
			f.pass()
			nodes := f.workers()
			for i := range nodes {
				if nodes[i].Spec.Unschedulable {
					draining = &nodes[i]
				}
			}
		}
		if draining == nil {
			t.Fatal("no node is drained")
		}
		time.Sleep(time.Minute)
		draining.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Now().Add(-behind)),
		}}
		f.must(f.nodes.Status().Update(t.Context(), draining))
		began := time.Now()
		for len(f.answers("scale")) == 0 && time.Since(began) < time.Hour {
			f.pass()
			time.Sleep(5 * time.Second)
		}
		if took := time.Since(began); took < 5*time.Minute || took > 7*time.Minute {
			t.Errorf("the portal is asked to remove it after %s", took)
		}
	})
}

// TestClockOfTheAPIServer: a creation waits a few seconds for all MachineDeployments of a manifest, and up to a minute for those of a topology,
// although the API server's clock, which stamps the objects, differs from the manager's.
func TestClockOfTheAPIServer(t *testing.T) {
	cases(t, map[string]time.Duration{"the same": 0, "10 minutes ahead": 10 * time.Minute, "10 minutes behind": -10 * time.Minute}, func(t *testing.T, ahead time.Duration) {
		e := newEstate(t, false)
		stamped := metav1.NewTime(time.Now().Add(time.Minute + ahead)) // add takes a minute
		e.addWorkers(client.ObjectKey{Namespace: "fleet", Name: "prod"}, 1, stamped)
		key := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) { cp.CreationTimestamp = stamped })
		began := time.Now()
		for ; e.asked("POST") == 0 && time.Since(began) < time.Hour; time.Sleep(time.Second) {
			e.create(key)
		}
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("the creation waited %s for MachineDeployments of its manifest", waited)
		}
		s := e.scope(key)
		missing := workers.Desired{Awaited: workers.Awaited{Names: []string{"later"}}}
		for began = time.Now(); !s.awaitTopology(missing, e.manager.memory(s).created.age(stamped.Time)).IsDone(); time.Sleep(time.Second) {
			if time.Since(began) > 2*time.Minute {
				t.Fatal("the creation waits for the topology for more than two minutes")
			}
		}
	})
}
