// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestControlPlaneChanged checks that a control plane wakes its PortalCluster when it has a kubeconfig or goes, and not with each status.
func TestControlPlaneChanged(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) func(*infrav1.PortalControlPlane) {
		return func(cp *infrav1.PortalControlPlane) {
			conditions.Set(cp, metav1.Condition{Type: kind, Status: status, Reason: "Test"})
		}
	}
	tests := map[string]struct {
		change func(*infrav1.PortalControlPlane)
		wakes  bool
	}{
		"another condition": {condition(infrav1.ProvisionedCondition, metav1.ConditionTrue), false},
		"no kubeconfig yet": {condition(infrav1.KubeconfigReadyCondition, metav1.ConditionFalse), false},
		"a kubeconfig":      {condition(infrav1.KubeconfigReadyCondition, metav1.ConditionTrue), true},
		"a portal cluster":  {func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = "cluster-1" }, true},
		"its Cluster":       {func(cp *infrav1.PortalControlPlane) { cp.Labels = map[string]string{clusterv1.ClusterNameLabel: "a"} }, true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			before := &infrav1.PortalControlPlane{}
			after := before.DeepCopy()
			test.change(after)
			for _, e := range []event.UpdateEvent{{ObjectOld: before, ObjectNew: after}, {ObjectOld: after, ObjectNew: before}} {
				if got := controlPlaneChanged.Update(e); got != test.wakes {
					t.Errorf("wakes: %t", got)
				}
			}
		})
	}
	if gone := (event.DeleteEvent{Object: &infrav1.PortalControlPlane{}}); !controlPlaneChanged.Delete(gone) {
		t.Error("a control plane that is gone wakes nothing")
	}
}
