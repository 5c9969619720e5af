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

// What core waits for with a Machine that is being deleted, as its condition begins.
const (
	atPreDrain     = "True " + clusterv1.MachineDeletingWaitingForPreDrainHookReason
	atDrain        = "True " + clusterv1.MachineDeletingDrainingNodeReason
	atVolumes      = "True " + clusterv1.MachineDeletingWaitingForVolumeDetachReason
	atPreTerminate = "True " + clusterv1.MachineDeletingWaitingForPreTerminateHookReason
	atInfra        = "True " + clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason
)

// Fact 2: a Machine that is being deleted passes, in this order: pre-drain hooks, the drain of its Node, the detachment
// of volumes, pre-terminate hooks, the deletion of the InfraMachine, the deletion of the Node object that
// status.nodeRef names.
//
// Pre-drain hooks, drain, volumes and the Node are left out while there is no nodeRef, while the Cluster or the
// control plane is being deleted, and when neither control plane Machines exist nor the control plane says that it is
// managed externally. Pre-terminate hooks are never left out: whoever sets one must take it off in all these cases. A
// nodeRef to a Node that is not there counts as a nodeRef.
//
// So a Machine that waits at the pre-terminate hook has not always been drained: status.deletion.nodeDrainStartTime says
// whether it was. And once it has been there, no Node that it gets is drained, but the Node is deleted.
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

// passesInOrder also has the nodeRef name another Node than the providerID does, at the end: the name counts.
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
	w.Expect(w.exists(workload, pod)()).To(BeFalse(), "the Pods are gone")
	w.Expect(w.exists(workload, node)()).To(BeTrue())
	w.Expect(node.Spec.Unschedulable).To(BeTrue())
	w.Expect(w.claim(m).DeletionTimestamp).To(BeNil())

	w.drop(m, infrav1.PreTerminateHook)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atInfra))
	w.Expect(w.claim(m).DeletionTimestamp).NotTo(BeNil())
	w.Expect(w.exists(workload, node)()).To(BeTrue(), "the Node is there as long as the PortalMachine")

	changeStatus(w, management, m, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = other.Name })
	w.letGo(m)
	w.Eventually(w.exists(management, m)).Should(BeFalse())
	w.Expect(w.exists(workload, other)()).To(BeFalse(), "the Node that nodeRef names is deleted")
	w.Expect(w.exists(workload, node)()).To(BeTrue(), "the Node that providerID names is not")
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
	w.Expect(node.Spec.Unschedulable).To(BeTrue(), "the drain comes first")
	w.Expect(progress(m).WaitForPreTerminateHookStartTime.IsZero()).To(BeTrue())
	w.report(node, func(s *corev1.NodeStatus) { s.VolumesAttached = nil })
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
}

// drainsOnce moves a drained Machine to a Node that is not drained, as when the portal has removed another node than
// the drained one: it is not drained too.
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

// drainsNever has the Node appear when the Machine, without nodeRef, has been let through to the pre-terminate hook. The
// pre-drain hook holds then, but behind it there is no drain.
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
	w.Expect(w.exists(workload, node)()).To(BeFalse(), "and yet its Node is deleted")
}

// onlyPreTerminateHolds follows a Machine with both hooks that is being deleted to its end.
func (w *world) onlyPreTerminateHolds(m *clusterv1.Machine) {
	w.Helper()
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate))
	w.Expect(m.Annotations).To(HaveKey(infrav1.PreDrainHook))
	w.drop(m, infrav1.PreTerminateHook)
	w.Eventually(w.machines.deleted(m.Name)).Should(BeTrue())
	for _, e := range w.machines.of(m.Name) {
		w.Expect(progress(e.object).WaitForPreDrainHookStartTime.IsZero()).To(BeTrue(), "the pre-drain hook did not hold")
		w.Expect(progress(e.object).NodeDrainStartTime.IsZero()).To(BeTrue(), "nothing was drained")
	}
}

// progress is how far the deletion of a Machine has come.
func progress(m *clusterv1.Machine) *clusterv1.MachineDeletionStatus {
	return cmp.Or(m.Status.Deletion, &clusterv1.MachineDeletionStatus{})
}
