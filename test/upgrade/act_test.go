// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// change patches an object and retries until the API server accepts the patch.
func change[T client.Object](l *life, o T, change func(T)) {
	l.Helper()
	l.Eventually(func() error {
		if err := box.Client.Get(l.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return box.Client.Patch(l.Context(), o, client.MergeFrom(before))
	}).WithTimeout(time.Minute).Should(Succeed())
}

// classes creates the templates of a ClusterClass, which no Cluster uses. They become samples.
func (l *life) classes() {
	meta := metav1.ObjectMeta{Namespace: l.namespace(), Name: "class"}
	infrastructure := &infrav1.PortalClusterTemplate{ObjectMeta: meta}
	infrastructure.Spec.Template.Spec = infrav1.PortalClusterTemplateResourceSpec{
		IdentityRef: l.portalCluster.Spec.IdentityRef, ZoneID: l.portalCluster.Spec.ZoneID, VPC: &l.portalCluster.Spec.VPC,
	}
	controlPlane := &infrav1.PortalControlPlaneTemplate{ObjectMeta: meta}
	controlPlane.Spec.Template.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	for _, o := range []client.Object{infrastructure, controlPlane} {
		l.Expect(box.Client.Create(l.Context(), o)).To(Succeed())
	}
}

func (l *life) replicas(count int32) {
	change(l, l.deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &count })
}

func (l *life) version(version string) {
	change(l, l.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = version })
}

// runs waits until the whole cluster runs the version.
func (l *life) runs(version string) {
	l.Eventually(func() string { l.fetch(l.controlPlane); return l.controlPlane.Status.Version }).Should(Equal(version))
}

func (l *life) rollOut() {
	change(l, l.deployment, func(md *clusterv1.MachineDeployment) {
		md.Spec.Rollout.After = metav1.NewTime(time.Now().Truncate(time.Second))
	})
}

// rolledOut waits until every Machine is younger than the roll-out.
func (l *life) rolledOut() {
	l.Eventually(func() (old []string) {
		for _, m := range l.all() {
			if m.CreationTimestamp.Time.Before(l.deployment.Spec.Rollout.After.Time) {
				old = append(old, m.Name)
			}
		}
		return old
	}).Should(BeEmpty(), "Machines that are older than the roll-out")
}

func (l *life) all() []clusterv1.Machine {
	list := &clusterv1.MachineList{}
	l.Expect(box.Client.List(l.Context(), list, client.InNamespace(l.namespace()))).To(Succeed())
	return list.Items
}

// hold adds a hook to all existing Machines that keeps them from being deleted.
func (l *life) hold() {
	for _, m := range l.all() {
		change(l, &m, func(m *clusterv1.Machine) {
			if m.Annotations == nil {
				m.Annotations = map[string]string{}
			}
			m.Annotations[holdHook] = "test"
		})
	}
}

// letGo removes the hooks of hold.
func (l *life) letGo() {
	for _, m := range l.all() {
		before := m.DeepCopy()
		delete(m.Annotations, holdHook)
		l.Expect(client.IgnoreNotFound(box.Client.Patch(l.Context(), &m, client.MergeFrom(before)))).To(Succeed())
	}
}

// deletingMachine waits until a Machine is being deleted.
func (l *life) deletingMachine() {
	l.Eventually(func() (deleting int) {
		for _, m := range l.all() {
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
	l.Eventually(func() bool {
		return apierrors.IsNotFound(box.Client.Get(l.Context(), client.ObjectKeyFromObject(l.cluster), l.cluster))
	}).Should(BeTrue(), "the Cluster is gone")
	l.Expect(l.running()).To(BeEmpty(), "machines of the portal")
}
