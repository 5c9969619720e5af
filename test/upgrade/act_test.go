// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		IdentityRef: l.portalCluster.Spec.IdentityRef, ZoneID: l.portalCluster.Spec.ZoneID, VPC: &l.portalCluster.Spec.VPC,
	}
	controlPlane := &infrav1.PortalControlPlaneTemplate{ObjectMeta: meta}
	controlPlane.Spec.Template.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	for _, o := range []client.Object{infrastructure, controlPlane} {
		l.Create(o)
	}
}

func (l *life) replicas(count int32) {
	suite.Change(l.Fixture, l.deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &count })
}

func (l *life) version(version string) {
	suite.Change(l.Fixture, l.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = version })
}

// runs waits until the whole cluster runs the version.
func (l *life) runs(version string) {
	l.Eventually(func() string { l.Get(l.controlPlane); return l.controlPlane.Status.Version }).Should(Equal(version))
}

func (l *life) rollOut() {
	suite.Change(l.Fixture, l.deployment, func(md *clusterv1.MachineDeployment) {
		md.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
	})
}

// rolledOut waits until every Machine is younger than the roll-out.
func (l *life) rolledOut() {
	l.Eventually(func() (old []string) {
		for _, m := range l.Machines() {
			if m.CreationTimestamp.Time.Before(l.deployment.Spec.Rollout.After.Time) {
				old = append(old, m.Name)
			}
		}
		return old
	}).Should(BeEmpty(), "Machines that are older than the roll-out")
}

// addHooks adds a hook to all existing Machines that keeps them from being deleted.
func (l *life) addHooks() {
	for _, m := range l.Machines() {
		suite.Change(l.Fixture, &m, func(m *clusterv1.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, holdHook, "test") })
	}
}

// removeHooks removes the hooks of addHooks.
func (l *life) removeHooks() {
	for _, m := range l.Machines() {
		before := m.DeepCopy()
		delete(m.Annotations, holdHook)
		l.Expect(client.IgnoreNotFound(box.Client.Patch(l.Context(), &m, client.MergeFrom(before)))).To(Succeed())
	}
}

// deletingMachine waits until a Machine is being deleted.
func (l *life) deletingMachine() {
	l.Eventually(func() (deleting int) {
		for _, m := range l.Machines() {
			if !m.DeletionTimestamp.IsZero() {
				deleting++
			}
		}
		return deleting
	}).ShouldNot(BeZero(), "Machines that are being deleted")
}

// live waits until that many Machines that are not being deleted exist, each with its PortalMachine. Core may take a moment to create and
// delete Machines.
func (l *life) live(count int) {
	l.Eventually(l.present).Should(HaveLen(2*count), "Machines that are not being deleted, and their PortalMachines")
}

func (l *life) delete() {
	l.Expect(box.Client.Delete(l.Context(), l.cluster)).To(Succeed())
}

// gone waits until neither the Cluster nor its portal cluster exists.
func (l *life) gone() {
	l.Eventually(l.Gone(l.cluster)).Should(BeTrue(), "the Cluster is gone")
	l.Expect(l.running()).To(BeEmpty(), "machines of the portal")
}
