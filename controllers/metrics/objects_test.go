// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// settled is a control plane with the conditions, each as type, status and reason, and with twice as many workers wanted as there are.
func settled(workers int32, conditions ...[3]string) client.Object {
	controlPlane := &infrav1.PortalControlPlane{}
	for _, c := range conditions {
		controlPlane.Status.Conditions = append(controlPlane.Status.Conditions,
			metav1.Condition{Type: c[0], Status: metav1.ConditionStatus(c[1]), Reason: c[2]})
	}
	controlPlane.Status.Workers = &infrav1.WorkerCounts{Desired: 2 * workers, Size: 2 * workers, Nodes: workers + 1, Claimed: workers}
	return controlPlane
}

// TestConditions checks that objects are counted by what their conditions report, and that a count follows its objects.
func TestConditions(t *testing.T) {
	o := newOffice(t, "")
	available, gone := [3]string{"Available", "True", "Ready"}, [3]string{"Available", "False", "PortalClusterGone"}
	o.add(settled(3, available), nil, 0)
	o.add(settled(4, available), nil, 0)
	last := o.add(settled(0, gone, [3]string{"Provisioned", "False", "PortalClusterGone"}), nil, 0)
	o.add(&infrav1.PortalControlPlane{}, nil, 0)
	o.add(&infrav1.PortalCluster{Status: infrav1.PortalClusterStatus{Conditions: []metav1.Condition{
		{Type: "IdentityReady", Status: metav1.ConditionUnknown, Reason: "InternalError"}}}}, nil, 0)
	o.samples("conditions", "") // by then another manager may be the one that acts
	close(o.elected)
	o.samples("conditions", `
		conditions{condition="Available",kind="PortalControlPlane",reason="PortalClusterGone",status="False"} 1
		conditions{condition="Available",kind="PortalControlPlane",reason="Ready",status="True"} 2
		conditions{condition="IdentityReady",kind="PortalCluster",reason="InternalError",status="Unknown"} 1
		conditions{condition="Provisioned",kind="PortalControlPlane",reason="PortalClusterGone",status="False"} 1
	`)
	o.samples("workers", `
		workers{state="claimed"} 7
		workers{state="desired"} 14
		workers{state="nodes"} 10
		workers{state="size"} 14
	`)
	if err := o.store.Delete(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	o.samples(`conditions{condition="Provisioned"`, "")
}

// TestObjectsOfOthers checks that a manager counts no objects that --watch-filter leaves to another.
func TestObjectsOfOthers(t *testing.T) {
	o := newOffice(t, "filter-1")
	for range 4 {
		o.add(settled(1, [3]string{"Available", "True", "Ready"}), nil, 0)
	}
	close(o.elected)
	o.samples("conditions", `conditions{condition="Available",kind="PortalControlPlane",reason="Ready",status="True"} 2`)
	o.samples(`workers{state="claimed"`, `workers{state="claimed"} 2`)
}
