// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
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

// TestRestoreWithStaleOwners restores all objects with their old owner references, as backup tools do, without the admission policy. The
// restored Cluster has a new UID, so the garbage collector takes the other objects for orphans. Only the portal cluster stays. With the policy
// the objects stay, too (test/ownership). The garbage collector's deletion of MachineDeployments and pools alone is in
// TestCollectedDeploymentsKeepTheirWorkers of controllers/portalcontrolplane and TestCountDesired of controllers/workers.
func TestRestoreWithStaleOwners(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	withoutPolicy(t)
	s := restored(t)
	s.Eventually(s.deleted).Should(ConsistOf("PortalCluster", "PortalControlPlane", "MachineDeployment"))
	s.resume()
	s.Eventually(s.Condition(s.controlPlane, clusterv1.DeletingCondition)).Should(HavePrefix("True DeletionNotConfirmed: "))
	s.Eventually(s.owner).Should(Equal(s.cluster.UID), "core corrects the owner reference, although the object is being deleted")
	s.letGoAndApplyAgain()
	s.settled(2)
	s.intact()
}

// restored returns a story that has lost all objects and restored them from a backup. The Cluster is paused.
func restored(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	s.apply()
	s.settled(2)
	backup := s.everything()
	s.pause()
	s.lose()
	for _, object := range backup {
		object.SetResourceVersion("")
		object.SetManagedFields(nil)
		if cluster, ok := object.(*clusterv1.Cluster); ok {
			cluster.Spec.Paused = ptr.To(true)
			s.cluster = cluster
		}
		s.Create(object)
	}
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

// intact checks that the creation is the only change at the portal, and that the two workers are not cordoned.
func (s *story) intact() {
	s.Helper()
	s.Expect(s.Changes()).To(Equal([]string{createRequest}))
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
// no other story has orphans. The API server notices it in some seconds, and the garbage collector tries again until then.
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
}
