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
)

// TestRotation changes the templates of the ClusterClass in two ways that must not change anything at the portal.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.apply()
	w.settled(2)
	nodes, machines, template := w.nodes(), names(w.machines()), w.template()

	t.Log("a template with another name and the same content: only the annotation with the name of its source changes")
	w.useTemplates("renamed", nil)
	w.Eventually(func() string { return w.template().Annotations[clusterv1.TemplateClonedFromNameAnnotation] }).Should(Equal("renamed"))
	w.settled(2)
	w.Expect(w.template().Name).To(Equal(template.Name))
	w.Consistently(func() []string { return names(w.machines()) }, 3*time.Second).Should(ConsistOf(machines), "core replaces no Machine")

	t.Log("a template with another label for Machines: core replaces the template and the Machines, and the nodes stay")
	w.useTemplates("labelled", map[string]string{"tier": "gold"})
	w.Eventually(func() string { return w.template().Name }).ShouldNot(Equal(template.Name))
	w.Expect(w.template().Spec.Template.Spec).To(Equal(template.Spec.Template.Spec))
	w.Eventually(func() []string { return names(w.machines()) }).ShouldNot(ContainElements(machines))
	w.settled(2)
	w.Expect(names(w.machines())).NotTo(ContainElement(BeElementOf(machines)))
	w.Expect(w.nodes()).To(Equal(nodes))
	w.Eventually(func() bool {
		return apierrors.IsNotFound(box.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template))
	}).Should(BeTrue(), "core deletes the unused template")
	claims := &infrav1.PortalMachineList{}
	w.list(claims)
	for _, claim := range claims.Items {
		w.Expect(claim.Labels).To(HaveKeyWithValue("tier", "gold"))
	}
	w.steady()
	w.Expect(w.asked()).To(Equal([]string{createRequest}))
}

// TestVariableThatCannotChange asks for other workers than the portal cluster was created with, and then for the same as before.
func TestVariableThatCannotChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.apply()
	w.settled(1)
	nodes, template := w.nodes(), w.template().Name
	before := w.variable("serviceOfferingID", `"offering-8-32"`)
	w.Eventually(w.condition(clusterv1.ClusterTopologyReconciledCondition)).Should(And(
		HavePrefix("False "+clusterv1.ClusterTopologyReconciledFailedReason), ContainSubstring("workers cannot be changed")))
	w.variable("serviceOfferingID", before)
	w.settled(1)
	w.Expect(w.template().Name).To(Equal(template))
	w.Expect(w.nodes()).To(Equal(nodes))
	w.Expect(w.asked()).To(Equal([]string{createRequest}))
}

// TestTemplateOfOtherWorkers does the same with a class whose control planes have no spec.workers. The topology controller replaces
// the template, which needs a dry run that changes the template. Then nothing else changes until the variable has its old
// value again.
func TestTemplateOfOtherWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.forgetWorkers()
	w.apply()
	w.settled(1)
	nodes, template := w.nodes(), w.template().Name
	before := w.variable("serviceOfferingID", `"offering-8-32"`)
	w.Eventually(func() string { return w.template().Spec.Template.Spec.ServiceOfferingID }).Should(Equal("offering-8-32"))
	w.Expect(w.template().Name).NotTo(Equal(template))
	w.Eventually(w.conditionOf(w.controlPlane(), infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.TemplateNotHonouredReason))
	w.variable("serviceOfferingID", before)
	w.settled(1)
	w.Expect(w.nodes()).To(Equal(nodes))
	w.Expect(w.asked()).To(Equal([]string{createRequest}))
	w.neverFailed()
}

// forgetWorkers removes spec.workers from the control plane's template, and all patches of this template from the class.
func (w *world) forgetWorkers() {
	w.Helper()
	for _, o := range w.others {
		template, _ := o.(*unstructured.Unstructured)
		if template.GetKind() == "PortalControlPlaneTemplate" {
			unstructured.RemoveNestedField(template.Object, "spec", "template", "spec", "workers")
		}
	}
	for i := range w.class.Spec.Patches {
		definitions := w.class.Spec.Patches[i].Definitions
		w.class.Spec.Patches[i].Definitions = slices.DeleteFunc(definitions, func(d clusterv1.PatchDefinition) bool {
			return d.Selector.Kind == "PortalControlPlaneTemplate"
		})
	}
	w.class.Spec.Patches = slices.DeleteFunc(w.class.Spec.Patches, func(p clusterv1.ClusterClassPatch) bool { return len(p.Definitions) == 0 })
}

// variable sets a variable of the Cluster, as JSON, and returns the old value.
func (w *world) variable(variable, value string) (before string) {
	w.Helper()
	change(w, w.cluster, func(c *clusterv1.Cluster) {
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
func (w *world) useTemplates(copies string, labels map[string]string) {
	w.Helper()
	original := client.ObjectKey{Namespace: w.namespace, Name: "portal-default-worker"}
	machine, bootstrap := &infrav1.PortalMachineTemplate{}, &infrav1.PortalBootstrapConfigTemplate{}
	w.Expect(box.Client.Get(w.Context(), original, machine)).To(Succeed())
	w.Expect(box.Client.Get(w.Context(), original, bootstrap)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: copies}
	machine.ObjectMeta, bootstrap.ObjectMeta = meta, meta
	machine.Spec.Template.ObjectMeta.Labels, bootstrap.Spec.Template.ObjectMeta.Labels = labels, labels
	w.create(machine)
	w.create(bootstrap)
	change(w, w.class, func(c *clusterv1.ClusterClass) {
		c.Spec.Workers.MachineDeployments[0].Infrastructure.TemplateRef.Name = copies
		c.Spec.Workers.MachineDeployments[0].Bootstrap.TemplateRef.Name = copies
	})
}

// template returns the PortalMachineTemplate that the only MachineDeployment names.
func (w *world) template() *infrav1.PortalMachineTemplate {
	w.Helper()
	deployments := &clusterv1.MachineDeploymentList{}
	w.list(deployments)
	w.Expect(deployments.Items).To(HaveLen(1))
	template := &infrav1.PortalMachineTemplate{}
	key := client.ObjectKey{Namespace: w.namespace, Name: deployments.Items[0].Spec.Template.Spec.InfrastructureRef.Name}
	w.Expect(box.Client.Get(w.Context(), key, template)).To(Succeed())
	return template
}

func names(machines []clusterv1.Machine) (all []string) {
	for _, m := range machines {
		all = append(all, m.Name)
	}
	return all
}
