// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// What core waits for while it deletes a Machine, as prefixes of the Machine's Deleting condition.
const (
	atPreDrain     = "True " + clusterv1.MachineDeletingWaitingForPreDrainHookReason
	atDrain        = "True " + clusterv1.MachineDeletingDrainingNodeReason
	atVolumes      = "True " + clusterv1.MachineDeletingWaitingForVolumeDetachReason
	atPreTerminate = "True " + clusterv1.MachineDeletingWaitingForPreTerminateHookReason
	atInfra        = "True " + clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason
)

// Fact 2: Core deletes a Machine in this order: pre-drain hooks, the drain of its Node, the detachment of volumes,
// pre-terminate hooks, the deletion of the InfraMachine, the deletion of the Node object that status.nodeRef names.
//
// Core skips pre-drain hooks, drain, volumes and the Node in three cases: the Machine has no nodeRef, the Cluster or the control
// plane is being deleted, or neither a control plane Machine exists nor the control plane's status says that it is managed
// externally. Core never skips pre-terminate hooks: a controller that sets one must remove it in all these cases too.
// A nodeRef to a Node that does not exist counts as a nodeRef.
//
// So core has not always drained the Node of a Machine that waits at the pre-terminate hook. It has if
// status.deletion.nodeDrainStartTime is set. If a Machine gets a Node after it has reached that hook, core does not drain the
// Node, but deletes it.
//
// Rests on machine/machine_controller.go (reconcileDelete, isDeleteNodeAllowed, isNodeDrainAllowed, drainNode,
// shouldWaitForNodeVolumes, deleteNode) and util/util.go (IsExternalManagedControlPlane).
var howMachineGoes = []Fact{
	{Name: "2-hook-drain-volumes-hook-claim-node", check: (*fixture).passesInOrder},
	{Name: "2-drained-machine-drains-no-other-node", check: (*fixture).drainsOnce},
	{Name: "2-node-after-the-drain-is-not-drained", check: (*fixture).drainsNever},
	{Name: "2-without-noderef-one-hook-holds", check: func(f *fixture) {
		m := f.machine("unbound")
		f.Eventually(f.condition(m, clusterv1.MachineInfrastructureReadyCondition)).Should(HavePrefix("False"))
		f.delete(m)
		f.onlyPreTerminateHolds(m)
	}},
	{Name: "2-noderef-without-a-node-counts", check: func(f *fixture) {
		m, node := f.bound("lost")
		f.delete(node)
		f.delete(m)
		f.Eventually(f.deletion(m)).Should(HavePrefix(atPreDrain))
		f.removeHooks(m, infrav1.PreDrainHook)
		f.Eventually(f.deletion(m)).Should(HavePrefix(atPreTerminate))
	}},
	{Name: "2-deleted-cluster-one-hook-holds", check: func(f *fixture) {
		f.leavesNode(func(*clusterv1.Machine) { f.delete(f.cluster) })
	}},
	{Name: "2-deleted-control-plane-one-hook-holds", check: func(f *fixture) {
		f.leavesNode(func(m *clusterv1.Machine) {
			change(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Finalizers = []string{finalizer} })
			f.delete(f.controlPlane)
			f.readControlPlane()
			f.delete(m)
		})
		change(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Finalizers = nil })
	}},
	{
		Name:   "2-own-control-plane-one-hook-holds",
		status: func(s *infrav1.PortalControlPlaneStatus) { s.ExternalManagedControlPlane = nil },
		check:  func(f *fixture) { f.leavesNode(func(m *clusterv1.Machine) { f.delete(m) }) },
	},
}

// leavesNode deletes a bound Machine in a case in which core leaves its Node alone.
func (f *fixture) leavesNode(remove func(*clusterv1.Machine)) {
	m, node := f.bound("a")
	remove(m)
	f.onlyPreTerminateHolds(m)
	f.untouched(node)
}

// passesInOrder follows a complete deletion. A Pod whose budget allows no eviction, and then an attached volume, hold all behind them. At the end the
// nodeRef names another Node than the providerID does, and core deletes the Node that the nodeRef names.
func (f *fixture) passesInOrder() {
	m, node := f.bound("all")
	other := f.node("other")
	f.addFinalizer(m)
	evicted, pod := f.run(node, "evicted"), f.run(node, "protected")
	f.protect(pod)
	f.report(node, func(s *corev1.NodeStatus) {
		s.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/disk"}}
	})

	f.delete(m)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreDrain))
	f.Expect(progress(m).NodeDrainStartTime.IsZero()).To(BeTrue())
	f.untouched(node)
	f.Expect(f.exists(evicted)()).To(BeTrue())

	f.removeHooks(m, infrav1.PreDrainHook)
	f.Eventually(f.deletion(m)).Should(And(HavePrefix(atDrain), ContainSubstring("disruption budget")))
	f.Eventually(f.exists(evicted)).Should(BeFalse())
	f.Expect(f.exists(pod)()).To(BeTrue())
	f.delete(pod)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atVolumes))
	f.report(node, func(s *corev1.NodeStatus) { s.VolumesAttached = nil })
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreTerminate))
	f.Expect(node.Spec.Unschedulable).To(BeTrue())
	f.Expect(f.claim(m).DeletionTimestamp).To(BeNil())
	for _, e := range f.machines.of(m.Name) {
		switch conditions.GetReason(e.object, clusterv1.MachineDeletingCondition) {
		case clusterv1.MachineDeletingDrainingNodeReason:
			f.Expect(progress(e.object).WaitForNodeVolumeDetachStartTime.IsZero()).To(BeTrue())
			fallthrough
		case clusterv1.MachineDeletingWaitingForVolumeDetachReason:
			f.Expect(progress(e.object).WaitForPreTerminateHookStartTime.IsZero()).To(BeTrue())
		}
	}

	f.removeHooks(m, infrav1.PreTerminateHook)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atInfra))
	f.Expect(f.claim(m).DeletionTimestamp).NotTo(BeNil())
	f.Expect(f.exists(node)()).To(BeTrue(), "the Node exists as long as the PortalMachine")
	changeStatus(f, m, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = other.Name })
	f.read(m)
	f.removeFinalizer(m)
	f.Eventually(f.exists(m)).Should(BeFalse())
	f.Expect(f.exists(other)()).To(BeFalse(), "core deletes the Node that nodeRef names")
	f.Expect(f.exists(node)()).To(BeTrue(), "core does not delete the Node that providerID names")
}

// drainsOnce moves a Machine from its drained Node to another Node, as our provider does if the portal has removed another
// node than the drained one. Core does not drain the second Node.
func (f *fixture) drainsOnce() {
	m, drained := f.bound("drained")
	other := f.node("stays")
	f.delete(m)
	f.removeHooks(m, infrav1.PreDrainHook)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreTerminate))
	f.Expect(f.exists(drained)()).To(BeTrue())
	f.Expect(drained.Spec.Unschedulable).To(BeTrue())

	f.setProviderID(m, other.Spec.ProviderID)
	f.Eventually(f.providerIDOf(m)).Should(Equal(other.Spec.ProviderID))
	changeStatus(f, m, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = other.Name })
	f.setReadyMessage(m, "a pass with the other Node")
	f.Expect(f.deletion(m)()).To(HavePrefix(atPreTerminate))
	f.untouched(other)
}

// drainsNever creates the Node after the Machine, which has no nodeRef, has reached the pre-terminate hook. Core then waits
// for the pre-drain hook, but does not drain the Node after it.
func (f *fixture) drainsNever() {
	m := f.machine("early")
	f.setProviderID(m, "portal://"+f.namespace+"/late")
	f.Eventually(func() []string { f.get(m); return m.Finalizers }).ShouldNot(BeEmpty(), "without core's finalizer the Machine would be gone at once")
	f.delete(m)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreTerminate))

	node := f.node("late")
	pod := f.run(node, "late")
	f.Eventually(f.nodeOf(m)).Should(Equal(node.Name))
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreDrain))
	f.removeHooks(m, infrav1.PreDrainHook)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreTerminate))
	f.Expect(f.exists(pod)()).To(BeTrue())
	f.untouched(node)
	f.removeHooks(m, infrav1.PreTerminateHook)
	f.Eventually(f.exists(m)).Should(BeFalse())
	f.Expect(f.exists(node)()).To(BeFalse(), "core deletes the Node that it has not drained")
}

// onlyPreTerminateHolds follows the deletion of a Machine with both hooks, and checks that core waits only for the
// pre-terminate hook and drains nothing.
func (f *fixture) onlyPreTerminateHolds(m *clusterv1.Machine) {
	f.Helper()
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreTerminate))
	f.Expect(m.Annotations).To(HaveKey(infrav1.PreDrainHook))
	f.removeHooks(m, infrav1.PreTerminateHook)
	f.Eventually(f.machines.deleted(m.Name)).Should(BeTrue())
	for _, e := range f.machines.of(m.Name) {
		f.Expect(progress(e.object).WaitForPreDrainHookStartTime.IsZero()).To(BeTrue(), "core has not waited for the pre-drain hook")
		f.Expect(progress(e.object).NodeDrainStartTime.IsZero()).To(BeTrue(), "core has not drained the Node")
	}
}

// progress returns the deletion status of a Machine, which is empty before the deletion.
func progress(m *clusterv1.Machine) *clusterv1.MachineDeletionStatus {
	return cmp.Or(m.Status.Deletion, &clusterv1.MachineDeletionStatus{})
}
