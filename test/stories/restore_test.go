// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// quiet is how long stories check that nothing happens. The garbage collector deletes an orphan within two seconds.
const quiet = 5 * time.Second

// TestRestoreWithStaleOwners restores all objects with their old owner references, as backup tools do. The restored Cluster has a new
// UID, so the garbage collector takes the other objects for orphans. With the admission policy the objects stay. Without it, only the
// portal cluster stays.
func TestRestoreWithStaleOwners(t *testing.T) {
	t.Parallel()
	t.Run("with the policy", func(t *testing.T) {
		s := restored(t)
		s.Consistently(s.deleted, quiet).Should(BeEmpty(), "kinds whose object the garbage collector has deleted")
		s.resume()
		s.settled(2)
		s.intact()
	})
	t.Run("without the policy", func(t *testing.T) {
		withoutPolicy(t)
		s := restored(t)
		s.Eventually(s.deleted).Should(ConsistOf("PortalCluster", "PortalControlPlane", "MachineDeployment"))
		s.resume()
		s.Eventually(s.Condition(s.controlPlane, clusterv1.DeletingCondition)).Should(HavePrefix("True DeletionNotConfirmed: "))
		s.Eventually(s.owner).Should(Equal(s.cluster.UID), "core corrects the owner reference, although the object is being deleted")
		s.Consistently(s.Changes, quiet).Should(Equal([]string{"POST kubernetes-clusters 202"}))
		s.letGoAndApplyAgain()
		s.settled(2)
		s.intact()
	})
	t.Run("a MachineDeployment, without the policy", func(t *testing.T) {
		withoutPolicy(t)
		s := newStory(t)
		s.apply()
		s.settled(2)
		s.restoreDeployment()
		replacement := newDeployment(metav1.ObjectMeta{Namespace: s.Namespace, Name: "replacement"}, 2)
		replacement.Spec.Template.Spec.InfrastructureRef.Name = s.template.Name
		s.Create(replacement)
		s.resume()
		s.Eventually(s.Gone(s.deployment)).Should(BeTrue())
		s.deployment = replacement
		s.settled(2)
		s.Expect(s.Changes()).To(Equal([]string{createRequest}), "the portal is asked for neither more nor fewer workers")
		s.intact()
	})
	t.Run("a pool, without the policy", func(t *testing.T) {
		withoutPolicy(t)
		s := newPoolStory(t, 0, 2)
		s.poolSettled(0, 2)
		s.Expect(s.Box.Client.Delete(s.Context(), s.deployment)).To(Succeed())
		s.restorePool()
		s.resume()
		s.poolLeft()
		s.Consistently(s.Changes, quiet).Should(Equal([]string{createRequest}))
		s.machinePool, s.pool = s.newPool("pool", 2)
		s.Create(s.machinePool)
		s.Create(s.pool)
		s.poolSettled(0, 2)
		s.intact()
	})
}

// restoreDeployment pauses the Cluster, gives its MachineDeployment an earlier owner, and waits until the garbage collector has deleted it.
func (s *story) restoreDeployment() {
	s.Helper()
	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	s.Eventually(s.Condition(s.controlPlane, clusterv1.PausedCondition)).Should(HavePrefix("True"))
	s.Eventually(s.Condition(s.deployment, clusterv1.PausedCondition)).Should(HavePrefix("True"))
	suite.Change(s.Fixture, s.deployment, func(md *clusterv1.MachineDeployment) { md.OwnerReferences[0].UID = "before" })
	s.Eventually(func() bool {
		s.Expect(s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(s.deployment), s.deployment)).To(Succeed())
		return !s.deployment.DeletionTimestamp.IsZero()
	}).Should(BeTrue(), "the garbage collector deletes the MachineDeployment")
}

// restorePool pauses the Cluster, restores its MachinePool and its PortalMachinePool with stale owners, and waits until the garbage collector
// has deleted both.
func (s *poolStory) restorePool() {
	s.Helper()
	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	s.Eventually(s.Condition(s.controlPlane, clusterv1.PausedCondition)).Should(HavePrefix("True"))
	pools := []client.Object{s.machinePool, s.pool}
	for _, o := range pools {
		s.Eventually(s.Condition(o, clusterv1.PausedCondition)).Should(HavePrefix("True"))
		backup, _ := o.DeepCopyObject().(client.Object)
		suite.Change(s.Fixture, o, func(o client.Object) { o.SetFinalizers(nil) })
		s.Expect(client.IgnoreNotFound(s.Box.Client.Delete(s.Context(), o))).To(Succeed())
		backup.SetResourceVersion("")
		backup.SetManagedFields(nil)
		owners := backup.GetOwnerReferences()
		owners[0].UID = "before"
		backup.SetOwnerReferences(owners)
		s.Create(backup)
	}
	s.Eventually(func() bool {
		for _, o := range pools {
			if s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o) != nil || o.GetDeletionTimestamp().IsZero() {
				return false
			}
		}
		return true
	}).Should(BeTrue(), "the garbage collector deletes the pool")
}

// restored returns a story that has lost all objects and restored them from a backup. The Cluster is paused.
func restored(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	s.apply()
	s.settled(2)
	backup := s.everything()
	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	s.Eventually(s.Condition(s.controlPlane, clusterv1.PausedCondition)).Should(HavePrefix("True"))
	s.Eventually(s.Condition(s.deployment, clusterv1.PausedCondition)).Should(HavePrefix("True"))
	s.lose()
	canary := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "canary", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: s.cluster.UID},
	}}}
	for _, object := range append(backup, canary) {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		if cluster, ok := object.(*clusterv1.Cluster); ok {
			cluster.Spec.Paused = ptr.To(true)
			s.cluster = cluster
		}
		s.Create(object)
	}
	s.Eventually(s.Gone(canary)).Should(BeTrue(), "the garbage collector works")
	return s
}

// everything returns all objects of Cluster API and of the provider in the namespace, the Cluster first.
func (s *story) everything() (all []client.Object) {
	s.Helper()
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineTemplateList{},
		&clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{}, &infrav1.PortalMachineList{},
	} {
		s.List(list)
		s.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			object, _ := o.(client.Object)
			all = append(all, object)
			return nil
		})).To(Succeed())
	}
	return all
}

// lose removes all objects without their finalizers, as if etcd were lost.
func (s *story) lose() {
	s.Helper()
	s.Eventually(func() []client.Object {
		left := s.everything()
		for _, object := range left {
			before, _ := object.DeepCopyObject().(client.Object)
			object.SetFinalizers(nil)
			s.Expect(client.IgnoreNotFound(s.Box.Client.Patch(s.Context(), object, client.MergeFrom(before)))).To(Succeed())
			s.Expect(client.IgnoreNotFound(s.Box.Client.Delete(s.Context(), object))).To(Succeed())
		}
		return left
	}).Should(BeEmpty())
}

// deleted returns the kinds of the Cluster's dependents that are being deleted or gone.
func (s *story) deleted() (kinds []string) {
	for kind, object := range map[string]client.Object{
		"PortalCluster": s.portalCluster, "PortalControlPlane": s.controlPlane, "MachineDeployment": s.deployment,
	} {
		if err := s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(object), object); err != nil || !object.GetDeletionTimestamp().IsZero() {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// owner returns the UID in the owner reference of the control plane.
func (s *story) owner() types.UID {
	if err := s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(s.controlPlane), s.controlPlane); err != nil {
		return ""
	}
	return s.controlPlane.OwnerReferences[0].UID
}

func (s *story) resume() {
	s.Helper()
	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
}

// intact checks that the creation is the only change at the portal, and that the two workers are not cordoned.
func (s *story) intact() {
	s.Helper()
	s.Expect(s.Changes()).To(Equal([]string{"POST kubernetes-clusters 202"}))
	clusters := s.PortalClusters()
	s.Expect(clusters).To(HaveLen(1))
	s.Expect(clusters[0].Size).To(Equal(2))
	for _, node := range s.Nodes() {
		s.Expect(node.Spec.Unschedulable).To(BeFalse(), "Node %s was drained", node.Name)
	}
}

// letGoAndApplyAgain retains the portal cluster and applies the manifest again, as docs/deletion.md describes.
func (s *story) letGoAndApplyAgain() {
	s.Helper()
	id := s.controlPlane.Spec.ClusterID
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	s.Eventually(s.left).Should(BeEmpty())
	cluster, secret := s.cluster, s.secret
	s.compose()
	s.cluster, s.secret = cluster, secret
	s.controlPlane.Spec.ClusterID, s.controlPlane.Spec.DeletionPolicy = id, infrav1.DeletionPolicyRetain
	for _, o := range []client.Object{s.portalCluster, s.controlPlane, s.deployment, s.template} {
		s.Create(o)
	}
}

// left returns the objects that must be gone before the user can apply them again. No person removes a finalizer.
func (s *story) left() (names []string) {
	for _, machine := range s.Machines() {
		names = append(names, machine.Name)
	}
	for _, o := range []client.Object{s.controlPlane, s.portalCluster, s.deployment, s.template} {
		if err := s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			names = append(names, o.GetName())
		}
	}
	return names
}

// withoutPolicy removes the binding of the policy against the garbage collector until the test ends. This affects no other story, because
// no other story has orphans.
func withoutPolicy(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "capportal-garbage-collection"}}
	g.Expect(box.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding)).To(Succeed())
	g.Expect(box.Client.Delete(t.Context(), binding)).To(Succeed())
	t.Cleanup(func() {
		binding.ResourceVersion = ""
		NewWithT(t).Expect(box.Client.Create(context.WithoutCancel(t.Context()), binding)).To(Succeed())
	})
	time.Sleep(quiet) // until the API server has noticed
}
