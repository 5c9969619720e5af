// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestRotation changes the templates of the ClusterClass in two ways that must not change anything at the portal. Then it asks for other
// workers than the portal cluster was created with, and for the same as before.
func TestRotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	f.apply()
	f.settled(2)
	nodes, machines, template := f.nodes(), names(f.Machines()), f.template()

	t.Log("a template with another name and the same content: only the annotation with the name of its source changes")
	f.useTemplates("renamed", nil)
	f.Eventually(func() string { return f.template().Annotations[clusterv1.TemplateClonedFromNameAnnotation] }).Should(Equal("renamed"))
	f.settled(2)
	f.Expect(f.template().Name).To(Equal(template.Name))
	f.Consistently(func() []string { return names(f.Machines()) }, 3*time.Second).Should(ConsistOf(machines), "core replaces no Machine")

	t.Log("a template with another label for Machines: core replaces the template and the Machines, and the nodes stay")
	f.useTemplates("labelled", map[string]string{"tier": "gold"})
	f.Eventually(func() string { return f.template().Name }).ShouldNot(Equal(template.Name))
	f.Expect(f.template().Spec.Template.Spec).To(Equal(template.Spec.Template.Spec))
	f.Eventually(func() []string { return names(f.Machines()) }).ShouldNot(ContainElements(machines))
	f.settled(2)
	f.Expect(names(f.Machines())).NotTo(ContainElement(BeElementOf(machines)))
	f.Expect(f.nodes()).To(Equal(nodes))
	f.Eventually(func() bool {
		return apierrors.IsNotFound(box.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template))
	}).Should(BeTrue(), "core deletes the unused template")
	claims := &infrav1.PortalMachineList{}
	f.List(claims)
	for _, claim := range claims.Items {
		f.Expect(claim.Labels).To(HaveKeyWithValue("tier", "gold"))
	}
	f.steady()

	t.Log("a variable that cannot change: the topology controller reports it, and nothing changes")
	template = f.template()
	before := f.variable("serviceOfferingID", `"offering-8-32"`)
	f.Eventually(f.Condition(f.cluster, clusterv1.ClusterTopologyReconciledCondition)).Should(And(
		HavePrefix("False "+clusterv1.ClusterTopologyReconciledFailedReason), ContainSubstring("workers cannot be changed")))
	f.variable("serviceOfferingID", before)
	f.settled(2)
	f.Expect(f.template().Name).To(Equal(template.Name))
	f.Expect(f.nodes()).To(Equal(nodes))
	f.Expect(f.Changes()).To(Equal([]string{createRequest}))
}

// TestTemplateOfOtherWorkers asks for other workers with a class whose control planes have no spec.workers. The topology controller replaces
// the template, which needs a dry run that changes the template. Then nothing else changes until the variable has its old
// value again.
func TestTemplateOfOtherWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.forgetWorkers()
	f.apply()
	f.settled(1)
	nodes, template := f.nodes(), f.template().Name
	before := f.variable("serviceOfferingID", `"offering-8-32"`)
	f.Eventually(func() string { return f.template().Spec.Template.Spec.ServiceOfferingID }).Should(Equal("offering-8-32"))
	f.Expect(f.template().Name).NotTo(Equal(template))
	f.Eventually(f.Condition(f.controlPlane(), infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.TemplateNotHonoredReason))
	f.variable("serviceOfferingID", before)
	f.settled(1)
	f.Expect(f.nodes()).To(Equal(nodes))
	f.Expect(f.Changes()).To(Equal([]string{createRequest}))
	f.neverFailed()
}

// forgetWorkers removes spec.workers from the control plane's template, and all patches of this template from the class.
func (f *fixture) forgetWorkers() {
	f.Helper()
	for _, o := range f.others {
		template, _ := o.(*unstructured.Unstructured)
		if template.GetKind() == "PortalControlPlaneTemplate" {
			unstructured.RemoveNestedField(template.Object, "spec", "template", "spec", "workers")
		}
	}
	for i := range f.class.Spec.Patches {
		definitions := f.class.Spec.Patches[i].Definitions
		f.class.Spec.Patches[i].Definitions = slices.DeleteFunc(definitions, func(d clusterv1.PatchDefinition) bool {
			return d.Selector.Kind == "PortalControlPlaneTemplate"
		})
	}
	f.class.Spec.Patches = slices.DeleteFunc(f.class.Spec.Patches, func(p clusterv1.ClusterClassPatch) bool { return len(p.Definitions) == 0 })
}

// variable sets a variable of the Cluster, as JSON, and returns the old value.
func (f *fixture) variable(variable, value string) (before string) {
	f.Helper()
	suite.Change(f.Fixture, f.cluster, func(c *clusterv1.Cluster) {
		for i := range c.Spec.Topology.Variables {
			if v := &c.Spec.Topology.Variables[i]; v.Name == variable {
				before, v.Value.Raw = string(v.Value.Raw), []byte(value)
			}
		}
	})
	return before
}

// useTemplates copies the worker templates of the ClusterClass, with another name and other labels, and makes the ClusterClass use
// the copies.
func (f *fixture) useTemplates(copies string, labels map[string]string) {
	f.Helper()
	original := client.ObjectKey{Namespace: f.Namespace, Name: "portal-default-worker"}
	machine, bootstrap := &infrav1.PortalMachineTemplate{}, &infrav1.PortalBootstrapConfigTemplate{}
	f.Expect(box.Client.Get(f.Context(), original, machine)).To(Succeed())
	f.Expect(box.Client.Get(f.Context(), original, bootstrap)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: f.Namespace, Name: copies}
	machine.ObjectMeta, bootstrap.ObjectMeta = meta, meta
	machine.Spec.Template.ObjectMeta.Labels, bootstrap.Spec.Template.ObjectMeta.Labels = labels, labels
	f.Create(machine)
	f.Create(bootstrap)
	suite.Change(f.Fixture, f.class, func(c *clusterv1.ClusterClass) {
		c.Spec.Workers.MachineDeployments[0].Infrastructure.TemplateRef.Name = copies
		c.Spec.Workers.MachineDeployments[0].Bootstrap.TemplateRef.Name = copies
	})
}

// template returns the PortalMachineTemplate that the only MachineDeployment names.
func (f *fixture) template() *infrav1.PortalMachineTemplate {
	f.Helper()
	deployments := &clusterv1.MachineDeploymentList{}
	f.List(deployments)
	f.Expect(deployments.Items).To(HaveLen(1))
	template := &infrav1.PortalMachineTemplate{}
	key := client.ObjectKey{Namespace: f.Namespace, Name: deployments.Items[0].Spec.Template.Spec.InfrastructureRef.Name}
	f.Expect(box.Client.Get(f.Context(), key, template)).To(Succeed())
	return template
}

func names(machines []clusterv1.Machine) (all []string) {
	for _, m := range machines {
		all = append(all, m.Name)
	}
	return all
}
