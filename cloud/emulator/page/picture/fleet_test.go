// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// TestFleet checks what is known of a portal cluster without the portal and without its API server: numbers, nodes with the state of the
// Machine that claims them, and those of a MachinePool. A Cluster of another provider is not there, nor are its Machines.
func TestFleet(t *testing.T) {
	labels := map[string]string{clusterv1.ClusterNameLabel: "shop"}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "fleet", Name: name, Labels: labels}
	}
	c := &contents{}
	c.clusters.Items = []clusterv1.Cluster{{ObjectMeta: named("other")}, {ObjectMeta: named("shop")}}
	controlPlane := infrav1.PortalControlPlane{ObjectMeta: named("shop-plane")}
	controlPlane.Spec.Version = "v1.36.3"
	controlPlane.Status.Workers = &infrav1.WorkerCounts{Size: 4}
	controlPlane.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.ScalingDownReason}}
	c.controlPlanes.Items = []infrav1.PortalControlPlane{controlPlane}
	deployment := clusterv1.MachineDeployment{ObjectMeta: named("shop-workers")}
	deployment.Spec.ClusterName, deployment.Spec.Replicas = "shop", ptr.To[int32](2)
	c.deployments.Items = []clusterv1.MachineDeployment{deployment}
	pool := clusterv1.MachinePool{ObjectMeta: named("shop-pool")}
	pool.Spec.ClusterName, pool.Spec.Replicas, pool.Status.ReadyReplicas = "shop", ptr.To[int32](1), ptr.To[int32](1)
	pool.Status.NodeRefs = []corev1.ObjectReference{{Name: "p1"}}
	c.pools.Items = []clusterv1.MachinePool{pool}
	for i, l := range []life{{node: "n1"}, {node: "n1", deleted: true, draining: true}, {node: "n2", unjoined: true}, {unclaimed: true}} {
		name := fmt.Sprintf("shop-%d", i)
		m := l.machine(name, i)
		m.Namespace, m.Spec.ClusterName = "fleet", "shop"
		if m.Status.NodeRef.IsDefined() {
			m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineNodeReadyCondition, Status: metav1.ConditionTrue}}
		}
		c.machines.Items = append(c.machines.Items, m)
		claim := l.claim(name)
		claim.Namespace = "fleet"
		c.portalMachines.Items = append(c.portalMachines.Items, claim)
	}
	other := life{node: "n9"}.machine("other-0", 0)
	other.Namespace, other.Spec.ClusterName = "fleet", "other"
	c.machines.Items = append(c.machines.Items, other)

	got := (&Fleet{}).picture(c, nil)
	if len(got.Clusters) != 1 || got.Clusters[0].Name != "fleet/shop" || got.Clusters[0].Wanted != 3 || len(got.Machines) != 4 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(&page.Known{State: infrav1.ScalingDownReason, Version: "v1.36.3", Size: 4, Ready: 3}, got.Clusters[0].Known); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []page.Node{
		{ClusterID: "fleet/shop", Name: "n1", State: page.NodeDraining},
		{ClusterID: "fleet/shop", Name: "n2", State: page.NodeJoining},
		{ClusterID: "fleet/shop", Name: "p1", State: page.NodeUp},
	}
	if diff := cmp.Diff(want, got.Nodes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if name := (&Fleet{namespace: "fleet"}).picture(c, nil).Clusters[0].Name; name != "shop" {
		t.Errorf("in its namespace, the Cluster is called %s", name)
	}
}

// TestKnownState checks the state of a cluster that is not at the portal yet, that is as it should be, and that goes.
func TestKnownState(t *testing.T) {
	ready := &infrav1.PortalControlPlane{}
	ready.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason}}
	now := metav1.Now()
	going := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}
	for want, o := range map[string]*objects{
		"Waiting":  {cluster: &clusterv1.Cluster{}, controlPlane: &infrav1.PortalControlPlane{}},
		"Running":  {cluster: &clusterv1.Cluster{}, controlPlane: ready},
		"Deleting": {cluster: going, controlPlane: ready},
	} {
		if got := o.known().State; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestMoments checks what each event of a PortalControlPlane becomes, in the order of their times, and that others tell nothing.
func TestMoments(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	event := func(second int, of, reason, kind string) corev1.Event {
		return corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{UID: types.UID(fmt.Sprint("event-", second))},
			InvolvedObject: corev1.ObjectReference{Namespace: "fleet", Name: of}, Reason: reason, Type: kind, Action: "scale", Message: "Says why",
			EventTime: metav1.NewMicroTime(begin.Add(time.Duration(second) * time.Second)),
		}
	}
	repeated := event(1, "plane", infrav1.UnauthorizedReason, corev1.EventTypeWarning)
	repeated.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(begin.Add(9 * time.Second))}
	old := event(0, "plane", infrav1.EventMachineMoved, corev1.EventTypeNormal)
	old.EventTime, old.LastTimestamp = metav1.MicroTime{}, metav1.NewTime(begin.Add(6*time.Second))
	var got []string
	for _, m := range moments([]corev1.Event{
		repeated, old,
		event(8, "plane", infrav1.EventOperationFailed, corev1.EventTypeWarning),
		event(7, "plane", infrav1.EventOperationStarted, corev1.EventTypeNormal),
		event(3, "plane", infrav1.EventOperationStarted, corev1.EventTypeNormal),
		event(4, "plane", infrav1.EventNodeDrainStarted, corev1.EventTypeNormal),
		event(4, "unknown", infrav1.EventNodeDrainStarted, corev1.EventTypeNormal),
		event(5, "plane", infrav1.EventOperationSucceeded, corev1.EventTypeNormal),
		event(5, "plane", infrav1.EventNodeDrainEnded, corev1.EventTypeNormal),
	}, map[client.ObjectKey]string{keyOf("fleet", "plane"): "fleet/shop"}) {
		got = append(got, fmt.Sprintf("%d %s %s %s", int(m.Time.Sub(begin).Seconds()), m.Kind, m.ID, m.Text))
	}
	want := []string{
		"3 request  Says why", "3 job event-3 scale", "4 drain  Says why", "5 job-end event-3 succeeded", "6 replaced  Says why",
		"7 request  Says why", "7 job event-7 scale", "8 job-end event-7 failed", "8 warning  Says why", "9 warning  Unauthorized: Says why",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
