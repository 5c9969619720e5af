// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// kinds are the kinds of a Cluster's objects, in an order in which a restore may create them.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Secret"},
	clusterv1.GroupVersion.WithKind("Cluster"),
	clusterv1.GroupVersion.WithKind("MachineDeployment"),
	clusterv1.GroupVersion.WithKind("Machine"),
	clusterv1.GroupVersion.WithKind("MachineSet"),
	infrav1.GroupVersion.WithKind("PortalBootstrapConfig"),
	infrav1.GroupVersion.WithKind("PortalBootstrapConfigTemplate"),
	infrav1.GroupVersion.WithKind("PortalCluster"),
	infrav1.GroupVersion.WithKind("PortalControlPlane"),
	infrav1.GroupVersion.WithKind("PortalMachine"),
	infrav1.GroupVersion.WithKind("PortalMachineTemplate"),
}

// restores lose all objects of the namespace and restore them from a backup, while the portal cluster runs.
func restores() []row {
	return []row{{
		event:   "restore with stale owner references, children first",
		happens: func(s *story) { b := s.backup(); s.lose(); s.restore(box.Client, b.backwards()) },
		sees:    []sight{deleting, provisioned, {"MachineDeployment", clusterv1.DeletingCondition}},
	}}
}

// withoutPolicies are restores without the policy against the garbage collector.
func withoutPolicies() []row {
	return []row{{
		event:   "the same restore without the policy against the garbage collector. A person sets `deletionPolicy: Retain`, and applies the manifest with `spec.clusterID`",
		happens: (*story).restoreWithoutPolicy, sees: []sight{deleting, available},
	}}
}

// restoreWithoutPolicy restores all objects with their old owner references. The restored Cluster has a new UID, so the garbage collector takes the
// other objects for orphans. It is paused until the garbage collector has acted. Only the portal cluster stays.
func (s *story) restoreWithoutPolicy() {
	s.Helper()
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "capportal-garbage-collection"}}
	s.delete(binding) // which adopt installs again, with the provider
	b := s.backup()
	s.lose()
	s.restore(box.Client, b.change(func(o *unstructured.Unstructured) {
		if o.GetKind() == "Cluster" {
			s.Expect(unstructured.SetNestedField(o.Object, true, "spec", "paused")).To(Succeed())
		}
	}))
	for _, o := range []client.Object{s.PortalCluster, s.ControlPlane, s.Deployment} {
		s.Eventually(func() bool { return s.Gone(o)() || !s.read(o).GetDeletionTimestamp().IsZero() }).Should(BeTrue(), "%T is collected", o)
	}
	suite.Change(s.Fixture, s.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	s.Eventually(s.Condition(s.ControlPlane, clusterv1.DeletingCondition)).Should(HavePrefix("True DeletionNotConfirmed: "))
	suite.Change(s.Fixture, s.ControlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	s.Eventually(s.Gone(s.ControlPlane)).Should(BeTrue())
	s.adopt()
}

// adopt removes what is left of the Cluster while the provider is away, and applies the manifest with the id of the portal cluster.
func (s *story) adopt() {
	s.Helper()
	box.StopManager()
	s.strip()
	s.installProvider()
	s.compose()
	s.ControlPlane.Spec.ClusterID = s.id
	for _, o := range s.objects() {
		s.Create(o)
	}
}

// backup holds the objects of a namespace, without the metadata that an API server sets.
type backup []*unstructured.Unstructured

// list returns the objects in the namespace. Kinds without a CRD have no objects.
func list(ctx context.Context, c client.Client, namespace string) (backup, error) {
	var all backup
	for _, kind := range kinds {
		objects := &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, objects, client.InNamespace(namespace))
		if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
			return nil, err
		}
		for i := range objects.Items {
			all = append(all, &objects.Items[i])
		}
	}
	return all, nil
}

// backup saves the namespace.
func (s *story) backup() backup {
	s.Helper()
	all, err := list(s.Context(), box.Client, s.Namespace)
	s.Expect(err).NotTo(HaveOccurred())
	for _, o := range all {
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
	}
	return all
}

// change returns a copy of the backup with each object changed.
func (b backup) change(change func(o *unstructured.Unstructured)) backup {
	var changed backup
	for _, o := range b {
		o = o.DeepCopy()
		change(o)
		changed = append(changed, o)
	}
	return changed
}

// withoutOwners returns the backup of a tool that drops owner references.
func (b backup) withoutOwners() backup {
	return b.change(func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
}

// backwards returns the backup with the Cluster after the objects that it owns.
func (b backup) backwards() backup {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}

// only returns the objects of the given kinds.
func (b backup) only(kinds ...string) backup {
	return slices.DeleteFunc(slices.Clone(b), func(o *unstructured.Unstructured) bool { return !slices.Contains(kinds, o.GetKind()) })
}

// restore creates the objects at a management cluster, and writes their status if the backup has it.
func (s *story) restore(at client.Client, b backup) {
	s.Helper()
	for _, o := range b {
		status, saved := o.Object["status"]
		restored := o.DeepCopy()
		err := at.Create(s.Context(), restored)
		if apierrors.IsAlreadyExists(err) { // core or the provider has created the object, and a restore does not replace existing objects
			continue
		}
		s.Expect(err).NotTo(HaveOccurred(), "%s %s", o.GetKind(), o.GetName())
		if saved {
			restored.Object["status"] = status
			if err := at.Status().Update(s.Context(), restored); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				s.Expect(err).NotTo(HaveOccurred(), "status of %s %s", o.GetKind(), o.GetName())
			}
		}
	}
}

// lose removes all objects of the namespace as the loss of a management cluster does: controllers do not act on the deletions.
func (s *story) lose() {
	s.Helper()
	for _, o := range []client.Object{s.Cluster, s.PortalCluster, s.ControlPlane, s.Deployment} {
		s.pause(o)
	}
	s.strip()
}

// pause makes core and the provider ignore the object, and waits until they report this.
func (s *story) pause(o client.Object) {
	s.Helper()
	suite.Change(s.Fixture, o, func(o client.Object) {
		if cluster, ok := o.(*clusterv1.Cluster); ok {
			cluster.Spec.Paused = new(true)
			return
		}
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[clusterv1.PausedAnnotation] = ""
		o.SetAnnotations(annotations)
	})
	s.Eventually(s.Condition(o, clusterv1.PausedCondition)).Should(HavePrefix("True"), "%T is paused", o)
}

// strip deletes all objects of the namespace, in spite of their finalizers.
func (s *story) strip() {
	s.Helper()
	s.Eventually(func() (left int) {
		left, err := raze(s.Context(), box.Client, s.Namespace)
		s.Expect(err).NotTo(HaveOccurred())
		return left
	}).Should(BeZero(), "objects in the namespace")
}

// raze deletes all objects of the namespace, in spite of their protection and finalizers. It returns the number of objects that it found.
func raze(ctx context.Context, c client.Client, namespace string) (int, error) {
	all, err := list(ctx, c, namespace)
	if err != nil {
		return 0, err
	}
	unprotected := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, infrav1.DeletionProtectionAnnotation))
	for _, o := range all { // before a deletion: a Cluster is kept while its PortalControlPlane is protected
		if infrav1.DeletionProtected(o) {
			if err := client.IgnoreNotFound(c.Patch(ctx, o, unprotected)); err != nil {
				return 0, err
			}
		}
	}
	for _, o := range all {
		if o.GetDeletionTimestamp() == nil {
			if err := client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
				return 0, err
			}
		}
		none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := c.Patch(ctx, o, none); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, err
		}
	}
	return len(all), nil
}
