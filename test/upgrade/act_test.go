// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// classes creates the templates of a ClusterClass, which no Cluster uses. They become samples.
func (l *life) classes() {
	meta := metav1.ObjectMeta{Namespace: l.Namespace, Name: "class"}
	infrastructure := &infrav1.PortalClusterTemplate{ObjectMeta: meta}
	infrastructure.Spec.Template.Spec = infrav1.PortalClusterTemplateResourceSpec{
		IdentityRef: l.PortalCluster.Spec.IdentityRef, ZoneID: l.PortalCluster.Spec.ZoneID, VPC: &l.PortalCluster.Spec.VPC,
	}
	controlPlane := &infrav1.PortalControlPlaneTemplate{ObjectMeta: meta}
	controlPlane.Spec.Template.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	l.Create(infrastructure)
	l.Create(controlPlane)
}

func (l *life) replicas(count int32) {
	suite.Change(l.Fixture, l.Deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &count })
}

func (l *life) version(version string) {
	suite.Change(l.Fixture, l.ControlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = version })
}

// runs waits until the whole cluster runs the version.
func (l *life) runs(version string) {
	l.Eventually(func() string { l.Get(l.ControlPlane); return l.ControlPlane.Status.Version }).Should(Equal(version))
}

func (l *life) rollOut() {
	suite.Change(l.Fixture, l.Deployment, func(md *clusterv1.MachineDeployment) {
		md.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
	})
}

// rolledOut waits until every Machine is younger than the roll-out.
func (l *life) rolledOut() {
	l.Eventually(l.Machines).ShouldNot(ContainElement(WithTransform(func(m clusterv1.Machine) bool {
		return m.CreationTimestamp.Before(&l.Deployment.Spec.Rollout.After)
	}, BeTrue())), "Machines that are older than the roll-out")
}

// addHooks adds a hook to all existing Machines that keeps them from being deleted.
func (l *life) addHooks() {
	for _, m := range l.Machines() {
		suite.Change(l.Fixture, &m, func(m *clusterv1.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, holdHook, "test") })
	}
}

// removeHooks removes the hooks of addHooks.
func (l *life) removeHooks() {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+holdHook+`":null}}}`))
	for _, m := range l.Machines() {
		l.Expect(client.IgnoreNotFound(box.Client.Patch(l.Context(), &m, patch))).To(Succeed())
	}
}

// deletingMachine waits until a Machine is being deleted.
func (l *life) deletingMachine() {
	l.Eventually(l.Machines).Should(ContainElement(HaveField("DeletionTimestamp", Not(BeNil()))), "a Machine that is being deleted")
}

// live waits until that many Machines that are not being deleted exist, each with its PortalMachine. Core may take a moment to create and
// delete Machines.
func (l *life) live(count int) {
	l.Eventually(l.present).Should(HaveLen(2*count), "Machines that are not being deleted, and their PortalMachines")
}

func (l *life) delete() {
	l.Expect(box.Client.Delete(l.Context(), l.Cluster)).To(Succeed())
}

// gone waits until neither the Cluster nor its portal cluster exists.
func (l *life) gone() {
	l.Eventually(l.Gone(l.Cluster)).Should(BeTrue(), "the Cluster is gone")
	l.Expect(l.running()).To(BeEmpty(), "machines of the portal")
}
