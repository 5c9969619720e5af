// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fact 7: A new Machine can take over the Node of an old one. During a rollout, both can be bound to one Node by the same
// providerID, and both are Ready. The MachineDeployment then has one Machine too many and scales the old MachineSet down by
// one. The MachineSet deletes the Machine with the annotation delete-machine, which our provider releases (fact 3). Core
// drains and deletes no Node, and the MachineDeployment is always Available.
//
// While two Machines share a Node, a change of the Node triggers a reconcile of neither of them. Each sees the change in its
// next reconcile, so the provider should share a Node only for a short time.
//
// Rests, beyond facts 1 and 3, on machinedeployment/machinedeployment_rollout_rollingupdate.go (reconcileNewMachineSet,
// reconcileOldMachineSetsRollingUpdate), machinedeployment/machinedeployment_status.go (setAvailableCondition) and
// machine/machine_controller.go (nodeToMachine).
var takeover = []Fact{
	{Name: "7-takeover-surge-1", check: (*fixture).takesOver},
	{Name: "7-takeover-unavailable-1", check: (*fixture).takesOverFreed},
}

// rollout creates a MachineDeployment with two Machines on Nodes, and then changes its template. Core would delete the first of the
// returned old Machines last. The returned Nodes have the names of the Machines as keys.
func (f *fixture) rollout(surge, unavailable int) (deployment *clusterv1.MachineDeployment, old []*clusterv1.Machine, nodes map[string]*corev1.Node) {
	f.Helper()
	deployment = f.machineDeployment("workers", 2)
	change(f, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Rollout.Strategy = rollingUpdate(surge, unavailable) })
	old = f.machinesWith("deployment", deployment.Name, 2)
	slices.SortFunc(old, func(a, b *clusterv1.Machine) int { return strings.Compare(b.Name, a.Name) })
	nodes = f.bindAll(old)
	f.Eventually(f.condition(deployment, clusterv1.MachineDeploymentAvailableCondition)).Should(HavePrefix("True"))
	f.revise(deployment, "next")
	return deployment, old, nodes
}

func rollingUpdate(surge, unavailable int) clusterv1.MachineDeploymentRolloutStrategy {
	return clusterv1.MachineDeploymentRolloutStrategy{
		Type: clusterv1.RollingUpdateMachineDeploymentStrategyType,
		RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
			MaxSurge: ptr.To(intstr.FromInt(surge)), MaxUnavailable: ptr.To(intstr.FromInt(unavailable)),
		},
	}
}

// revise gives the deployment a new PortalMachineTemplate, of that name.
func (f *fixture) revise(deployment *clusterv1.MachineDeployment, template string) {
	f.Helper()
	f.template(template)
	change(f, deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = template })
}

func (f *fixture) takesOver() {
	deployment, old, nodes := f.rollout(1, 0)
	seen := observe[*clusterv1.MachineDeployment](f, &clusterv1.MachineDeploymentList{}, client.InNamespace(f.namespace))
	expected := []string{}
	for _, o := range old {
		next := f.unbound(deployment, 3)
		f.annotate(o, clusterv1.DeleteMachineAnnotation)
		f.bind(next, nodes[o.Name])
		f.Eventually(f.condition(next, clusterv1.MachineReadyCondition)).Should(HavePrefix("True"))

		expected = append(expected, o.Name)
		f.Eventually(f.machines.deleting("deployment", deployment.Name)).Should(HaveLen(len(expected)))
		f.Expect(f.machines.deleting("deployment", deployment.Name)()).To(Equal(expected))
		f.Expect(f.shared(o, next)).To(BeTrue(), "both Machines are Ready on one Node")
		f.release(o)
	}
	f.rolledOut(deployment, nodes)
	f.Expect(f.machines.deleting("deployment", deployment.Name)()).To(Equal(expected), "no other Machine was deleted")
	f.Expect(len(seen.all())).To(BeNumerically(">", len(old)))
	for _, e := range seen.all() {
		available := conditions.Get(e.object, clusterv1.MachineDeploymentAvailableCondition)
		f.Expect(available.Status).To(BeEquivalentTo("True"), "%s", available.Message)
	}
}

// shared reports whether both Machines were Ready on the same Node at some time before the deletion of the old one.
func (f *fixture) shared(old, next *clusterv1.Machine) bool {
	latest := map[string]*clusterv1.Machine{}
	for _, e := range f.machines.all() {
		latest[e.object.Name] = e.object
		o, n := latest[old.Name], latest[next.Name]
		if o != nil && n != nil && o.DeletionTimestamp == nil && o.Status.NodeRef == n.Status.NodeRef &&
			conditions.IsTrue(o, clusterv1.MachineReadyCondition) && conditions.IsTrue(n, clusterv1.MachineReadyCondition) {
			return true
		}
	}
	return false
}

// takesOverFreed lets core delete the old Machine first, as MaxUnavailable allows, and binds the new Machine to the released Node.
func (f *fixture) takesOverFreed() {
	deployment, old, nodes := f.rollout(0, 1)
	for i := range old {
		f.Eventually(f.machines.deleting("deployment", deployment.Name)).Should(HaveLen(i + 1))
		name := f.machines.deleting("deployment", deployment.Name)()[i]
		f.Expect(nodes).To(HaveKey(name), "an old Machine goes")
		o := old[slices.IndexFunc(old, func(m *clusterv1.Machine) bool { return m.Name == name })]
		f.release(o)
		f.bind(f.unbound(deployment, 2), nodes[o.Name])
	}
	f.rolledOut(deployment, nodes)
}

// unbound waits until the MachineDeployment has count Machines, one of them without a providerID, and returns that Machine.
func (f *fixture) unbound(deployment *clusterv1.MachineDeployment, count int) *clusterv1.Machine {
	f.Helper()
	var found []*clusterv1.Machine
	f.Eventually(func() bool {
		found = slices.DeleteFunc(f.machinesWith("deployment", deployment.Name, count), func(m *clusterv1.Machine) bool { return m.Spec.ProviderID != "" })
		return len(found) > 0
	}).Should(BeTrue())
	return found[0]
}

// rolledOut waits until all Machines have the new template, and checks that core has neither cordoned nor deleted the Nodes.
func (f *fixture) rolledOut(deployment *clusterv1.MachineDeployment, nodes map[string]*corev1.Node) {
	f.Helper()
	f.Eventually(f.condition(deployment, clusterv1.MachineDeploymentMachinesUpToDateCondition)).Should(HavePrefix("True"))
	f.Eventually(f.condition(deployment, clusterv1.MachineDeploymentRollingOutCondition)).Should(HavePrefix("False"))
	f.Eventually(func() [2]int32 {
		f.get(deployment)
		return [2]int32{ptr.Deref(deployment.Status.Replicas, 0), ptr.Deref(deployment.Status.UpToDateReplicas, 0)}
	}).Should(Equal([2]int32{2, 2}), "replicas and up-to-date replicas")
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		f.untouched(nodes[name])
	}
	// Core annotates each Node with the name of its Machine. The cluster autoscaler, for example, reads the annotation.
	for _, m := range f.machinesWith("deployment", deployment.Name, 2) {
		f.Eventually(func() string {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Status.NodeRef.Name}}
			f.Expect(f.exists(node)()).To(BeTrue())
			return node.Annotations[clusterv1.MachineAnnotation]
		}).Should(Equal(m.Name))
	}
}
