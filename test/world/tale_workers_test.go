// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// poolLabel has a domain whose labels core copies from Machines to Nodes.
const poolLabel = "node.cluster.x-k8s.io/pool"

// TestReplicas creates a cluster with two MachineDeployments and deletes one. Then it scales up, down, and five times in a row, faster than jobs
// end. Each request changes the size, and asks for more only where the user did.
func TestReplicas(t *testing.T) {
	tale(t, func(w *World) {
		m := NewManifest(2)
		m.Workers.Spec.Deletion.Order = clusterv1.NewestMachineSetDeletionOrder
		more := NewWorkers("more", 1)
		more.Spec.Template.Labels = map[string]string{poolLabel: "more"}
		w.Apply(m)
		w.Create(more)
		w.Settle(3)
		w.Until("the label is on one Node", Patience, func() string {
			if n := slices.DeleteFunc(w.Workers(), func(n *corev1.Node) bool { return n.Labels[poolLabel] != "more" }); len(n) != 1 {
				return "the label is on other Nodes"
			}
			return ""
		})
		w.Asked("create") // with the sum
		capacity := read(w, &infrav1.PortalMachineTemplate{ObjectMeta: named("a")}).Status.Capacity
		Equal(w, "capacity of a worker, for the autoscaler", capacity, w.Workers()[0].Status.Capacity)
		w.Delete(more)
		w.Settle(2)
		w.Asked("create", "scale")

		w.Scale(4)
		w.Settle(4)
		w.Scale(1)
		w.Settle(1)
		for _, replicas := range []int32{2, 3, 1, 2, 1} {
			w.Scale(replicas)
			w.Let(7 * time.Second)
		}
		w.Settle(1)
		raised := 0
		for i, size := range w.resizes() {
			if size[1] > size[0] {
				raised++
			}
			if size[0] == size[1] || size[1] < 1 || size[1] > size[0] && !slices.Contains([]int{4, 2, 3}, size[1]) {
				w.Errorf("request %d of %v was not wanted", i, w.resizes())
			}
		}
		if raised > 4 {
			w.Errorf("%d scale-ups in %v", raised, w.resizes())
		}
		w.End()
	})
}

// TestOtherNode has core delete the oldest Machines, and the portal remove the newest nodes. The Machines that lose their nodes take those that
// run. One worker goes first, which shows the portal's order.
func TestOtherNode(t *testing.T) {
	tale(t, func(w *World) {
		m := NewManifest(2)
		m.Workers.Spec.Deletion.Order = clusterv1.OldestMachineSetDeletionOrder
		w.Apply(m)
		w.Settle(2)
		before := w.uids()
		w.Scale(4)
		w.Settle(4)
		w.RollApp()
		w.Scale(2)
		w.Settle(2)
		Equal(w, "worker Nodes", w.uids(), before)
		Equal(w, "killed Pods", len(w.Killed()), 0)
		w.Asked("create", "scale", "scale", "scale")
		w.End()
	})
}

// TestRollouts upgrades a cluster and rolls its Machines out, one more at a time. Then the user asks for an offering that the portal cannot give
// a worker, and takes it back. All nodes stay.
func TestRollouts(t *testing.T) {
	tale(t, func(w *World) {
		m := NewManifest(2)
		one, none := intstr.FromInt32(1), intstr.FromInt32(0)
		m.Workers.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{
			Type: clusterv1.RollingUpdateMachineDeploymentStrategyType, RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
				MaxSurge: &one, MaxUnavailable: &none,
			},
		}
		w.Apply(m)
		w.Settle(2)
		w.SetVersion(newVersion)
		w.Upgraded(newVersion)
		before, old := w.uids(), w.machineNames()
		Edit(w, key, theWorkers(), func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = newVersion })
		w.Until("rolled out", Patience, w.Runs(2, newVersion))
		w.Settle(2)
		if slices.ContainsFunc(w.machineNames(), func(one string) bool { return slices.Contains(old, one) }) {
			w.Errorf("Machines %v, before %v", w.machineNames(), old)
		}
		w.Create(NewTemplate("large", "large"))
		Edit(w, key, theWorkers(), func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = "large" })
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.TemplateNotHonoredReason, "Revert the template")
		Edit(w, key, theWorkers(), func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = "a" })
		w.Settle(2)
		Equal(w, "worker Nodes", w.uids(), before)
		w.Asked("create", "upgrade")
		w.End()
	})
}

// TestMismatchHoldsNothingElse adds workers that the portal cannot create. Their Machine waits and never holds a node, and the others scale up,
// roll out and scale down.
func TestMismatchHoldsNothingElse(t *testing.T) {
	tale(t, func(w *World) {
		w.CreateCluster(2)
		w.Settle(2)
		w.Create(NewTemplate("large", "large"))
		large := NewWorkers("large", 1)
		large.Spec.Template.Spec.InfrastructureRef.Name = "large"
		w.Create(large)
		waits := func() {
			w.Helper()
			w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.TemplateNotHonoredReason, "large")
		}
		waits()
		healthy := func(n int, old ...string) {
			w.Helper()
			w.Until("the healthy workers follow", Patience, func() string {
				names := w.bound(name)
				if len(names) != n || slices.ContainsFunc(names, func(one string) bool { return slices.Contains(old, one) }) {
					return "they are not"
				}
				return ""
			})
		}
		w.Scale(3)
		healthy(3)
		old := w.bound(name)
		Edit(w, key, theWorkers(), func(md *clusterv1.MachineDeployment) { md.Spec.Rollout.After = metav1.NewTime(time.Now()) })
		healthy(3, old...)
		w.Scale(1)
		healthy(1)
		waits()
		Equal(w, "nodes of the workers that wait", len(w.bound(large.Name)), 0)
		w.Delete(large)
		w.Settle(1)
		w.End()
	})
}

// bound are the Machines of a MachineDeployment that hold a node and stay.
func (w *World) bound(deployment string) (names []string) {
	for _, m := range w.Machines() {
		if m.Labels[clusterv1.MachineDeploymentNameLabel] == deployment && m.DeletionTimestamp.IsZero() && m.Status.NodeRef.IsDefined() {
			names = append(names, m.Name)
		}
	}
	return names
}

// TestAutoscaler does what the cluster autoscaler does: it marks a Machine, taints its Node and lowers the replicas, in the end to 0, which this
// portal refuses. Then it scales up again.
func TestAutoscaler(t *testing.T) {
	tale(t, func(w *World) {
		w.CreateCluster(2)
		w.Settle(2)
		stays := w.Workers()[0].Name // the portal removes the other node
		unwanted := w.Machines()[slices.IndexFunc(w.Machines(), func(m *clusterv1.Machine) bool { return m.Status.NodeRef.Name == stays })]
		Edit(w, client.ObjectKeyFromObject(unwanted), unwanted, func(m *clusterv1.Machine) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.DeleteMachineAnnotation, "")
		})
		w.patchNode(stays, func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectNoSchedule})
		})
		w.Scale(1)
		w.Settle(1)
		if got := w.Machines()[0].Name; got == unwanted.Name {
			w.Errorf("Machine %s stays, which was to go", got)
		}
		w.Until("no taint is left", Patience, func() string {
			if len(w.Workers()[0].Spec.Taints) > 0 {
				return "there is one"
			}
			return ""
		})
		w.Spare(6) // no node is left for its Pods
		w.Strike(emulator.Fault{ID: "size", Path: scaleRoute, Status: 422, Code: "INVALID_PARAMETER", Field: "size", Count: 1})
		w.Scale(0)
		w.SettleOn(0, 1)
		w.See(theControl(), infrav1.WorkersReadyCondition, "True", "ne worker node stays without a Machine, because the portal refuses a cluster without workers")
		w.Scale(2)
		w.Settle(2)
		w.End()
	})
}
