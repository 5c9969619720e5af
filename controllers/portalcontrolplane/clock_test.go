// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestClockOfWorkloadCluster: a Node that is being drained and stops being Ready for a moment counts as drained after 5 minutes, when
// Kubernetes has evicted its Pods, and not before, although the clock of the workload cluster differs from the manager's.
func TestClockOfWorkloadCluster(t *testing.T) {
	for title, behind := range map[string]time.Duration{"the same": 0, "5 minutes behind": 5 * time.Minute, "5 minutes ahead": -5 * time.Minute} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
				if err := f.nodes.Status().Update(t.Context(), draining); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				for len(f.answers("scale")) == 0 && time.Since(began) < time.Hour {
					f.pass()
					time.Sleep(5 * time.Second)
				}
				if took := time.Since(began); took < 5*time.Minute || took > 7*time.Minute {
					t.Errorf("the portal is asked to remove it after %s", took)
				}
			})
		})
	}
}
