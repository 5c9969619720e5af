// SPDX-License-Identifier: Apache-2.0

package facts

import (
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
// beginning and patches what it changed, isDeleteNodeAllowed).
var providerIDAndNodeRef = []Fact{
	{Name: "3-providerid-is-followed-noderef-stays", check: (*fixture).follows},
	{Name: "3-providerid-of-a-deleted-portalmachine", check: (*fixture).tooLate},
	{Name: "3-release-neither-drains-nor-deletes", check: (*fixture).releases},
	{Name: "3-release-before-core-sees-the-deletion", check: func(f *fixture) {
		m, node := f.bound("at-once")
		f.run(node, "stays")
		f.delete(m)
		f.release(m)
		f.untouched(node)
	}},
}

// follows gives a Machine other Nodes, before its deletion and in it. An emptied providerID is not followed, and a removed nodeRef is found again.
func (f *fixture) follows() {
	m, _ := f.bound("first")
	f.swaps(m, f.node("second"))
	providerID, node := m.Spec.ProviderID, m.Status.NodeRef.Name
	f.setProviderID(m, "")
	f.setReadyMessage(m, "a pass without providerID")
	f.Expect(f.providerIDOf(m)()).To(Equal(providerID))
	changeStatus(f, m, func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} })
	f.Eventually(f.nodeOf(m)).Should(Equal(node))
	f.delete(m)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreDrain))
	f.swaps(m, f.node("third"))
	f.Expect(f.deletion(m)()).To(HavePrefix(atPreDrain))
}

// swaps gives a Machine another Node: the providerID, then the nodeRef.
func (f *fixture) swaps(m *clusterv1.Machine, second *corev1.Node) {
	first := m.Status.NodeRef.Name
	before := len(f.machines.all())
	f.setProviderID(m, second.Spec.ProviderID)
	f.Eventually(f.providerIDOf(m)).Should(Equal(second.Spec.ProviderID))
	// Core copies nodeInfo from the Node with the Machine's providerID.
	f.Eventually(f.machineIDOf(m)).Should(Equal(second.Status.NodeInfo.MachineID))
	f.Expect(m.Status.NodeRef.Name).To(Equal(first), "core does not change a nodeRef")

	changeStatus(f, m, func(m *clusterv1.Machine) { m.Status.NodeRef.Name = second.Name })
	f.report(second, func(s *corev1.NodeStatus) { s.NodeInfo.MachineID = "reported later" })
	f.Eventually(f.machineIDOf(m)).Should(Equal("reported later"))
	f.Expect(m.Status.NodeRef.Name).To(Equal(second.Name), "a patched nodeRef stays")
	for _, e := range f.machines.all()[before:] {
		if e.object.Name == m.Name {
			f.Expect(e.object.Status.NodeRef.Name).To(BeElementOf(first, second.Name))
		}
	}
}

func (f *fixture) machineIDOf(m *clusterv1.Machine) func() string {
	return func() string {
		if f.get(m); m.Status.NodeInfo == nil {
			return ""
		}
		return m.Status.NodeInfo.MachineID
	}
}

func (f *fixture) tooLate() {
	m, node := f.bound("too-late")
	f.addFinalizer(m)
	f.delete(m)
	f.removeHooks(m, infrav1.PreDrainHook, infrav1.PreTerminateHook)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atInfra))
	f.setProviderID(m, "portal://"+f.namespace+"/elsewhere")
	f.setReadyMessage(m, "a pass with another providerID")
	f.Expect(f.providerIDOf(m)()).To(Equal(node.Spec.ProviderID))
	f.removeFinalizer(m)
	f.Eventually(f.exists(m)).Should(BeFalse())
	f.Expect(f.exists(node)()).To(BeFalse())
}

// releases makes the writes of a release one by one, with a Pod on the Node that a drain would evict.
func (f *fixture) releases() {
	m, node := f.bound("released")
	pod := f.run(node, "stays")
	f.delete(m)
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreDrain))

	nowhere := "portal://" + f.namespace + "/released/" + m.Name
	f.setProviderID(m, nowhere)
	f.Eventually(f.providerIDOf(m)).Should(Equal(nowhere))
	f.setReadyMessage(m, "a pass with that providerID")
	f.Expect(f.deletion(m)()).To(HavePrefix(atPreDrain), "a nodeRef counts even if no Node has the providerID")
	f.Expect(m.Status.NodeRef.Name).To(Equal(node.Name))

	changeStatus(f, m, func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} })
	f.Eventually(f.deletion(m)).Should(HavePrefix(atPreTerminate), "the pre-drain hook no longer holds")
	f.Expect(m.Annotations).To(HaveKey(infrav1.PreDrainHook))
	f.Expect(m.Status.NodeRef.Name).To(BeEmpty())

	f.release(m)
	f.Expect(f.exists(pod)()).To(BeTrue())
	f.untouched(node)
}
