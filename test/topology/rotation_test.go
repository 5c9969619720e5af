// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
