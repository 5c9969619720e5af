// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Fact 3: Core copies each change of PortalMachine.spec.providerID to Machine.spec.providerID, even while the Machine is being
// deleted. Core does not copy an empty providerID, and does not copy any after the deletion of the PortalMachine has begun.
// Core sets Machine.status.nodeRef from the providerID once and does not change it afterwards: a patched nodeRef stays. Core
// sets a removed nodeRef again, unless no Node has the providerID. So three writes release the Node of a Machine that is
// being deleted, and core neither drains nor deletes the Node: a providerID that no Node has, no nodeRef, no hooks.
//
// Rests on machine/machine_controller_phases.go (reconcileInfrastructure), machine/machine_controller_noderef.go
// (reconcileNode, getNode), machine/machine_controller.go (Reconcile, which works on the Machine as it was read at the
// beginning and patches what it changed; isDeleteNodeAllowed).
func providerIDAndNodeRef(t *testing.T) {
	w := begin(t, "bind", stable(version))
	t.Run("providerID_follows_and_nodeRef_stays", func(t *testing.T) {
		w := w.in(t)
		m, _ := w.bound("alive")
		w.swaps(m)
	})
	t.Run("also_while_the_Machine_is_deleted", func(t *testing.T) {
		w := w.in(t)
		m, _ := w.bound("deleting")
		w.delete(management, m)
		w.Eventually(w.deletion(m)).Should(HavePrefix(atPreDrain))
		w.swaps(m)
		w.Expect(w.deletion(m)()).To(HavePrefix(atPreDrain))
	})
	t.Run("a_removed_nodeRef_is_found_again", func(t *testing.T) {
		w := w.in(t)
		m, node := w.bound("again")
		changeStatus(w, management, m, func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} })
		w.Eventually(w.nodeOf(m)).Should(Equal(node.Name))
	})
	t.Run("an_emptied_providerID_is_not_followed", func(t *testing.T) {
		w := w.in(t)
		m, node := w.bound("emptied")
		w.hand(m, "")
		w.say(m, "a pass without providerID")
		w.Expect(w.providerIDOf(m)()).To(Equal(node.Spec.ProviderID))
	})
	t.Run("nor_that_of_a_PortalMachine_that_is_deleted", func(t *testing.T) { w.in(t).tooLate() })
	t.Run("release_neither_drains_nor_deletes_the_Node", func(t *testing.T) { w.in(t).releases() })
	t.Run("release_before_core_has_seen_the_Machine_go", func(t *testing.T) {
		w := w.in(t)
		m, node := w.bound("at-once")
		w.run(node)
		w.delete(management, m)
		w.release(m)
		w.untouched(node)
	})
}

// swaps gives a Machine another Node: the providerID, then the nodeRef.
func (w *world) swaps(m *clusterv1.Machine) {
	first := m.Status.NodeRef.Name
	second := w.node(m.Name + "-second")
	w.hand(m, second.Spec.ProviderID)
	w.Eventually(w.providerIDOf(m)).Should(Equal(second.Spec.ProviderID))
	// Core copies nodeInfo from the Node with the Machine's providerID.
	w.Eventually(w.machineIDOf(m)).Should(Equal(second.Status.NodeInfo.MachineID))
	w.Expect(m.Status.NodeRef.Name).To(Equal(first), "core does not change a nodeRef")

	changeStatus(w, management, m, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = second.Name })
	w.report(second, func(s *corev1.NodeStatus) { s.NodeInfo.MachineID = "reported later" })
	w.Eventually(w.machineIDOf(m)).Should(Equal("reported later"))
	w.Expect(m.Status.NodeRef.Name).To(Equal(second.Name), "a patched nodeRef stays")
	for _, e := range w.machines.of(m.Name) {
		if name := e.object.Status.NodeRef.Name; name != second.Name {
			w.Expect(name).To(Or(BeEmpty(), Equal(first)))
		}
	}
}

func (w *world) machineIDOf(m *clusterv1.Machine) func() string {
	return func() string {
		if w.read(management, m); m.Status.NodeInfo == nil {
			return ""
		}
		return m.Status.NodeInfo.MachineID
	}
}

func (w *world) tooLate() {
	m, node := w.bound("too-late")
	w.hold(m)
	w.delete(management, m)
	w.drop(m, infrav1.PreDrainHook, infrav1.PreTerminateHook)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atInfra))
	w.hand(m, "portal://"+w.namespace+"/elsewhere")
	w.say(m, "a pass with another providerID")
	w.Expect(w.providerIDOf(m)()).To(Equal(node.Spec.ProviderID))
	w.letGo(m)
	w.Eventually(w.exists(management, m)).Should(BeFalse())
	w.Expect(w.exists(workload, node)()).To(BeFalse())
}

// releases makes the writes of a release one by one, with a Pod on the Node that a drain would evict.
func (w *world) releases() {
	m, node := w.bound("released")
	pod := w.run(node)
	w.delete(management, m)
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreDrain))

	nowhere := "portal://" + w.namespace + "/released/" + m.Name
	w.hand(m, nowhere)
	w.Eventually(w.providerIDOf(m)).Should(Equal(nowhere))
	w.say(m, "a pass with that providerID")
	w.Expect(w.deletion(m)()).To(HavePrefix(atPreDrain), "a nodeRef counts even if no Node has the providerID")
	w.Expect(m.Status.NodeRef.Name).To(Equal(node.Name))

	changeStatus(w, management, m, func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} })
	w.Eventually(w.deletion(m)).Should(HavePrefix(atPreTerminate), "the pre-drain hook no longer holds")
	w.Expect(m.Annotations).To(HaveKey(infrav1.PreDrainHook))
	w.Expect(m.Status.NodeRef.Name).To(BeEmpty())

	w.release(m)
	w.Expect(w.exists(workload, pod)()).To(BeTrue())
	w.untouched(node)
}
