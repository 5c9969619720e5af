// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"cmp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// machineSpec returns the spec of a Machine without bootstrap, as in our templates.
func machineSpec(kind, name, version string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName: clusterName, Version: version,
		Bootstrap:         clusterv1.Bootstrap{DataSecretName: ptr.To("")},
		InfrastructureRef: ref(kind, name),
	}
}

// machine creates a Machine with both hooks and without an owner, and its PortalMachine.
func (f *fixture) machine(name string) *clusterv1.Machine {
	f.Helper()
	claim := &infrav1.PortalMachine{ObjectMeta: f.meta(name), Spec: infrav1.PortalMachineSpec{WorkerParameters: parameters}}
	f.create(claim)
	m := &clusterv1.Machine{ObjectMeta: f.meta(name), Spec: machineSpec("PortalMachine", name, version)}
	m.Annotations = map[string]string{infrav1.PreDrainHook: "", infrav1.PreTerminateHook: ""}
	f.create(m)
	return m
}

// bound creates a Machine as machine does, and a Node of the same name, and binds the Machine to the Node.
func (f *fixture) bound(name string) (*clusterv1.Machine, *corev1.Node) {
	f.Helper()
	m, node := f.machine(name), f.node(name)
	f.bind(m, node)
	return m, node
}

var parameters = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}

// template creates a PortalMachineTemplate.
func (f *fixture) template(name string) {
	f.Helper()
	template := &infrav1.PortalMachineTemplate{ObjectMeta: f.meta(name)}
	template.Spec.Template.Spec = parameters
	f.create(template)
}

// machineSet creates a MachineSet and a PortalMachineTemplate of the same name.
func (f *fixture) machineSet(name, version string, replicas int32, order clusterv1.MachineSetDeletionOrder) *clusterv1.MachineSet {
	f.Helper()
	labels, template := f.workers("set", name, version)
	set := &clusterv1.MachineSet{ObjectMeta: f.meta(name), Spec: clusterv1.MachineSetSpec{
		ClusterName: clusterName, Replicas: &replicas, Selector: labels, Deletion: clusterv1.MachineSetDeletionSpec{Order: order}, Template: template,
	}}
	f.create(set)
	return set
}

// machineDeployment creates a MachineDeployment and a PortalMachineTemplate of the same name.
func (f *fixture) machineDeployment(name string, replicas int32) *clusterv1.MachineDeployment {
	f.Helper()
	labels, template := f.workers("deployment", name, version)
	deployment := &clusterv1.MachineDeployment{ObjectMeta: f.meta(name), Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: clusterName, Replicas: &replicas, Selector: labels, Template: template,
	}}
	f.create(deployment)
	return deployment
}

// workers creates a PortalMachineTemplate, and returns the selector and the template of Machines that have its name as a label.
func (f *fixture) workers(label, name, version string) (metav1.LabelSelector, clusterv1.MachineTemplateSpec) {
	f.Helper()
	f.template(name)
	labels := map[string]string{label: name}
	return metav1.LabelSelector{MatchLabels: labels}, clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: labels}, Spec: machineSpec("PortalMachineTemplate", name, version),
	}
}

// machinesWith waits until count Machines have the label, and returns them by age, the oldest first, and by name.
func (f *fixture) machinesWith(label, value string, count int) (found []*clusterv1.Machine) {
	f.Helper()
	f.Eventually(func() int {
		found = nil
		machines := &clusterv1.MachineList{}
		f.Expect(f.Management().List(f.Context(), machines, client.InNamespace(f.namespace))).To(Succeed())
		for _, m := range machines.Items {
			if m.Labels[label] == value {
				found = append(found, &m)
			}
		}
		return len(found)
	}).Should(Equal(count), "Machines with %s=%s", label, value)
	slices.SortFunc(found, func(a, b *clusterv1.Machine) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return found
}

// claim returns the PortalMachine of a Machine.
func (f *fixture) claim(m *clusterv1.Machine) *infrav1.PortalMachine {
	f.Helper()
	claim := &infrav1.PortalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}}
	f.get(claim)
	return claim
}

// setProviderID sets the providerID of a Machine's claim. It does not wait for core.
func (f *fixture) setProviderID(m *clusterv1.Machine, providerID string) {
	f.Helper()
	claim := f.claim(m)
	change(f, claim, func(c *infrav1.PortalMachine) { c.Spec.ProviderID = providerID })
	changeStatus(f, claim, func(c *infrav1.PortalMachine) { c.Status.Initialization.Provisioned = ptr.To(true) })
}

// bind binds a Machine to a Node, and waits until core has stored the nodeRef and has read it again. A pass that begins with an older copy of
// the Machine would set the nodeRef once more, to the Node that the claim has by then.
func (f *fixture) bind(m *clusterv1.Machine, node *corev1.Node) {
	f.Helper()
	f.claimNode(m, node)
	f.Eventually(f.nodeOf(m)).Should(Equal(node.Name))
	f.read(m)
}

// read waits until core has read the Machine as it is now.
func (f *fixture) read(m *clusterv1.Machine) {
	f.Helper()
	change(f, m, func(m *clusterv1.Machine) {
		m.Spec.Deletion.NodeDeletionTimeoutSeconds = ptr.To(ptr.Deref(m.Spec.Deletion.NodeDeletionTimeoutSeconds, 0) + 1)
	})
	f.observed(m, clusterv1.MachineReadyCondition)
}

// claimNode binds a Machine to a Node as our controllers do: hooks first, then the providerID.
func (f *fixture) claimNode(m *clusterv1.Machine, node *corev1.Node) {
	f.Helper()
	change(f, m, func(m *clusterv1.Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.PreDrainHook, "")
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, infrav1.PreTerminateHook, "")
	})
	f.setProviderID(m, node.Spec.ProviderID)
}

// bindAll binds each Machine to a new Node of the same name, and returns the Nodes by the names of the Machines.
func (f *fixture) bindAll(machines []*clusterv1.Machine) map[string]*corev1.Node {
	f.Helper()
	nodes := map[string]*corev1.Node{}
	for _, m := range machines {
		nodes[m.Name] = f.node(m.Name)
		f.claimNode(m, nodes[m.Name])
	}
	for _, m := range machines {
		f.Eventually(f.nodeOf(m)).Should(Equal(nodes[m.Name].Name))
	}
	return nodes
}

// release releases the Node of a Machine that is being deleted, with the three writes of our controllers, and waits until the
// Machine is gone.
func (f *fixture) release(m *clusterv1.Machine) {
	f.Helper()
	nowhere := "portal://" + f.namespace + "/released/" + m.Name
	f.setProviderID(m, nowhere)
	f.Eventually(f.providerIDOf(m)).Should(Equal(nowhere))
	changeStatus(f, m, func(m *clusterv1.Machine) { m.Status.NodeRef = clusterv1.MachineNodeReference{} })
	f.removeHooks(m, infrav1.PreDrainHook, infrav1.PreTerminateHook)
	f.Eventually(f.machines.deleted(m.Name)).Should(BeTrue(), "Machine %s is gone", m.Name)
}

// removeHooks removes hooks from a Machine.
func (f *fixture) removeHooks(m *clusterv1.Machine, hooks ...string) {
	f.Helper()
	change(f, m, func(m *clusterv1.Machine) {
		for _, hook := range hooks {
			delete(m.Annotations, hook)
		}
	})
}

// addFinalizer adds a finalizer to a Machine's claim. removeFinalizer removes it.
func (f *fixture) addFinalizer(m *clusterv1.Machine) {
	f.Helper()
	change(f, f.claim(m), func(c *infrav1.PortalMachine) { c.Finalizers = []string{finalizer} })
}

func (f *fixture) removeFinalizer(m *clusterv1.Machine) {
	f.Helper()
	change(f, f.claim(m), func(c *infrav1.PortalMachine) { c.Finalizers = nil })
}

// setReadyMessage sets the message of the claim's Ready condition, and waits until core has copied it to the Machine. Then core has
// reconciled the Machine with the claim as it is now.
func (f *fixture) setReadyMessage(m *clusterv1.Machine, message string) {
	f.Helper()
	changeStatus(f, f.claim(m), func(c *infrav1.PortalMachine) {
		c.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Said", Message: message,
			LastTransitionTime: metav1.Now(),
		}}
	})
	f.Eventually(f.condition(m, clusterv1.MachineInfrastructureReadyCondition)).Should(HaveSuffix(message))
}

func (f *fixture) nodeOf(m *clusterv1.Machine) func() string {
	return func() string { f.get(m); return m.Status.NodeRef.Name }
}

func (f *fixture) providerIDOf(m *clusterv1.Machine) func() string {
	return func() string { f.get(m); return m.Spec.ProviderID }
}

// deletion returns a function that reads the Machine's Deleting condition, which names what core waits for.
func (f *fixture) deletion(m *clusterv1.Machine) func() string {
	return f.condition(m, clusterv1.MachineDeletingCondition)
}
