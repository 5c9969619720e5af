// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"cmp"
	"testing"

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
func howMachineGoes(t *testing.T) {
	w := begin(t, "delete", stable(version))
	t.Run("hook_drain_hook_PortalMachine_Node", func(t *testing.T) { w.in(t).passesInOrder() })
	t.Run("a_blocked_drain_holds_all_behind_it", func(t *testing.T) { w.in(t).blockedDrain() })
	t.Run("attached_volumes_hold_all_behind_them", func(t *testing.T) { w.in(t).attachedVolumes() })
	t.Run("a_drained_Machine_does_not_drain_another_Node", func(t *testing.T) { w.in(t).drainsOnce() })
	t.Run("a_Machine_that_got_past_the_drain_without_a_Node_never_drains_one", func(t *testing.T) { w.in(t).drainsNever() })
	t.Run("without_nodeRef_only_the_pre-terminate_hook_holds", func(t *testing.T) {
		w := w.in(t)
		m := w.machine("unbound")
		w.Eventually(w.condition(m, clusterv1.MachineInfrastructureReadyCondition)).Should(HavePrefix("False"))
		w.delete(management, m)
		w.onlyPreTerminateHolds(m)
	})
	t.Run("a_nodeRef_without_a_Node_counts", func(t *testing.T) {
		w := w.in(t)
		m, node := w.bound("lost")
		w.delete(workload, node)
		w.delete(management, m)
		w.Eventually(w.deletion(m)).Should(HavePrefix(atPreDrain))
		w.drop(m, infrav1.PreDrainHook)
		w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
		w.drop(m, infrav1.PreTerminateHook)
		w.Eventually(w.exists(management, m)).Should(BeFalse())
	})
	t.Run("while_the_Cluster_is_deleted_only_the_pre-terminate_hook_holds", func(t *testing.T) {
		w := begin(t, "delete-cluster", stable(version))
		m, node := w.bound("a")
		w.delete(management, w.cluster)
		w.onlyPreTerminateHolds(m)
		w.untouched(node)
	})
	t.Run("while_the_control_plane_is_deleted_only_the_pre-terminate_hook_holds", func(t *testing.T) {
		w := begin(t, "delete-control-plane", stable(version))
		m, node := w.bound("a")
		change(w, management, w.controlPlane, func(c *infrav1.PortalControlPlane) { c.Finalizers = []string{finalizer} })
		w.delete(management, w.controlPlane)
		w.delete(management, m)
		w.onlyPreTerminateHolds(m)
		w.untouched(node)
		change(w, management, w.controlPlane, func(c *infrav1.PortalControlPlane) { c.Finalizers = nil })
	})
	t.Run("unless_the_control_plane_is_external_only_the_pre-terminate_hook_holds", func(t *testing.T) {
		status := stable(version)
		status.ExternalManagedControlPlane = nil
		w := begin(t, "delete-not-external", status)
		m, node := w.bound("a")
		w.delete(management, m)
		w.onlyPreTerminateHolds(m)
		w.untouched(node)
	})
}

// passesInOrder follows a complete deletion. At the end the nodeRef names another Node than the providerID does, and core deletes
// the Node that the nodeRef names.
func (w *world) passesInOrder() {
	m, node := w.bound("all")
	other := w.node("other")
	w.hold(m)
	pod := w.run(node)

	w.delete(management, m)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreDrain))
	w.Expect(progress(m).NodeDrainStartTime.IsZero()).To(BeTrue())
	w.untouched(node)
	w.Expect(w.exists(workload, pod)()).To(BeTrue())

	w.drop(m, infrav1.PreDrainHook)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
	w.Expect(w.exists(workload, pod)()).To(BeFalse(), "core has evicted the Pod")
	w.Expect(w.exists(workload, node)()).To(BeTrue())
	w.Expect(node.Spec.Unschedulable).To(BeTrue())
	w.Expect(w.claim(m).DeletionTimestamp).To(BeNil())

	w.drop(m, infrav1.PreTerminateHook)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atInfra))
	w.Expect(w.claim(m).DeletionTimestamp).NotTo(BeNil())
	w.Expect(w.exists(workload, node)()).To(BeTrue(), "the Node exists as long as the PortalMachine")

	changeStatus(w, management, m, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = other.Name })
	w.letGo(m)
	w.Eventually(w.exists(management, m)).Should(BeFalse())
	w.Expect(w.exists(workload, other)()).To(BeFalse(), "core deletes the Node that nodeRef names")
	w.Expect(w.exists(workload, node)()).To(BeTrue(), "core does not delete the Node that providerID names")
}

func (w *world) blockedDrain() {
	m, node := w.bound("blocked")
	pod := w.run(node)
	w.protect(pod)
	w.delete(management, m)
	w.drop(m, infrav1.PreDrainHook)
	w.Eventually(w.deletion(m)).Should(And(HavePrefix(atDrain), ContainSubstring("disruption budget")))
	w.Expect(w.exists(workload, pod)()).To(BeTrue())
	w.delete(workload, pod)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
	for _, e := range w.machines.of(m.Name) {
		if conditions.GetReason(e.object, clusterv1.MachineDeletingCondition) == clusterv1.MachineDeletingDrainingNodeReason {
			w.Expect(progress(e.object).WaitForNodeVolumeDetachStartTime.IsZero()).To(BeTrue())
			w.Expect(progress(e.object).WaitForPreTerminateHookStartTime.IsZero()).To(BeTrue())
		}
	}
}

func (w *world) attachedVolumes() {
	m, node := w.bound("volumes")
	w.report(node, func(s *corev1.NodeStatus) {
		s.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/disk"}}
	})
	w.delete(management, m)
	w.drop(m, infrav1.PreDrainHook)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atVolumes))
	w.Expect(w.exists(workload, node)()).To(BeTrue())
	w.Expect(node.Spec.Unschedulable).To(BeTrue(), "core drains the Node before it waits for volumes")
	w.Expect(progress(m).WaitForPreTerminateHookStartTime.IsZero()).To(BeTrue())
	w.report(node, func(s *corev1.NodeStatus) { s.VolumesAttached = nil })
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
}

// drainsOnce moves a Machine from its drained Node to another Node, as our provider does if the portal has removed another
// node than the drained one. Core does not drain the second Node.
func (w *world) drainsOnce() {
	m, drained := w.bound("drained")
	other := w.node("stays")
	w.delete(management, m)
	w.drop(m, infrav1.PreDrainHook)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
	w.Expect(w.exists(workload, drained)()).To(BeTrue())
	w.Expect(drained.Spec.Unschedulable).To(BeTrue())

	w.hand(m, other.Spec.ProviderID)
	w.Eventually(w.providerIDOf(m)).Should(Equal(other.Spec.ProviderID))
	changeStatus(w, management, m, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = other.Name })
	w.say(m, "a pass with the other Node")
	w.Expect(w.deletion(m)()).To(HavePrefix(atPreTerminate))
	w.untouched(other)
}

// drainsNever creates the Node after the Machine, which has no nodeRef, has reached the pre-terminate hook. Core then waits
// for the pre-drain hook, but does not drain the Node after it.
func (w *world) drainsNever() {
	m := w.machine("early")
	w.hand(m, "portal://"+w.namespace+"/late")
	w.delete(management, m)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))

	node := w.node("late")
	pod := w.run(node)
	w.Eventually(w.nodeOf(m)).Should(Equal(node.Name))
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreDrain))
	w.drop(m, infrav1.PreDrainHook)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
	w.Expect(w.exists(workload, pod)()).To(BeTrue())
	w.untouched(node)
	w.drop(m, infrav1.PreTerminateHook)
	w.Eventually(w.exists(management, m)).Should(BeFalse())
	w.Expect(w.exists(workload, node)()).To(BeFalse(), "core deletes the Node that it has not drained")
}

// onlyPreTerminateHolds follows the deletion of a Machine with both hooks, and checks that core waits only for the
// pre-terminate hook and drains nothing.
func (w *world) onlyPreTerminateHolds(m *clusterv1.Machine) {
	w.Helper()
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
	w.Expect(m.Annotations).To(HaveKey(infrav1.PreDrainHook))
	w.drop(m, infrav1.PreTerminateHook)
	w.Eventually(w.machines.deleted(m.Name)).Should(BeTrue())
	for _, e := range w.machines.of(m.Name) {
		w.Expect(progress(e.object).WaitForPreDrainHookStartTime.IsZero()).To(BeTrue(), "core has not waited for the pre-drain hook")
		w.Expect(progress(e.object).NodeDrainStartTime.IsZero()).To(BeTrue(), "core has not drained the Node")
	}
}

// progress returns the deletion status of a Machine, which is empty before the deletion.
func progress(m *clusterv1.Machine) *clusterv1.MachineDeletionStatus {
	return cmp.Or(m.Status.Deletion, &clusterv1.MachineDeletionStatus{})
}
