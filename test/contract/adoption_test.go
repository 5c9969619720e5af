// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// authority lists the annotations that decide which portal clusters and jobs the provider acts on.
var authority = []string{infrav1.OperationAnnotation, infrav1.RecordAnnotation, infrav1.NetworkAnnotation, infrav1.OwnerAnnotation}

// attempt is a write that can take over a portal cluster. The refusal says what is written.
type attempt struct {
	says string
	try  func(client.Client) error
}

// creations are attempts with objects that do not exist yet.
func (f *fixture) creations() map[string]attempt {
	all := map[string]attempt{}
	add := func(title, says string, o client.Object, change func(client.Object)) {
		all[title] = attempt{says, func(c client.Client) error {
			o, _ := o.DeepCopyObject().(client.Object)
			change(o)
			return c.Create(f.Context(), o, client.DryRunAll)
		}}
	}
	for _, key := range authority {
		for _, o := range []client.Object{f.objects.PortalCluster, f.objects.ControlPlane} {
			add(key+" of a new object of "+f.kind(o), key, o, func(o client.Object) { o.SetAnnotations(map[string]string{key: "{}"}) })
		}
	}
	named := f.objects.ControlPlane.DeepCopy()
	named.Spec.ClusterID, named.Spec.DeletionPolicy = "cluster-1", infrav1.DeletionPolicyDelete
	add("clusterID of a new object", "spec.clusterID", named, func(client.Object) {})
	add("a forged backup", infrav1.RecordAnnotation, named, func(o client.Object) {
		o.SetAnnotations(map[string]string{infrav1.RecordAnnotation: `{"uid":"before-the-restore","clusterID":"cluster-1"}`})
	})
	add("a confirmed deletion of a portal cluster that the object does not own", "spec.clusterID", named, func(o client.Object) {
		o.SetFinalizers([]string{infrav1.ControlPlaneFinalizer})
		o.SetAnnotations(map[string]string{infrav1.DecisionAnnotation: infrav1.DecisionDelete.About("cluster-1"), clusterv1.PausedAnnotation: ""})
	})
	return all
}

// changes are attempts with objects that exist: a Cluster's own object, and one of a portal cluster that the status reports as gone.
func (f *fixture) changes(tenant client.Client) map[string]attempt {
	gone := f.owner()
	f.Expect(f.report(tenant, gone, func() {
		gone.Status.Conditions = []metav1.Condition{condition(infrav1.ProvisionedCondition, metav1.ConditionFalse, infrav1.PortalClusterGoneReason)}
	})).To(Succeed(), "a tenant can forge a condition")
	plain := f.objects.ControlPlane.DeepCopy()
	plain.Name = "plain"
	f.create(plain)
	patch := func(of *infrav1.PortalControlPlane, says string, change func(*infrav1.PortalControlPlane)) attempt {
		return attempt{says, func(c client.Client) error { return changed(f, c, of, change) }}
	}
	annotate := func(of *infrav1.PortalControlPlane, says, key, value string) attempt {
		return patch(of, says, func(cp *infrav1.PortalControlPlane) { metav1.SetMetaDataAnnotation(&cp.ObjectMeta, key, value) })
	}
	return map[string]attempt{
		"clusterID of an object without": patch(plain, "spec.clusterID", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = "cluster-1" }),
		"another clusterID after a forged condition": patch(gone, "spec.clusterID", func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID = "cluster-2"
		}),
		"another record":          annotate(gone, infrav1.RecordAnnotation, infrav1.RecordAnnotation, `{"size":2}`),
		"an operation":            annotate(plain, infrav1.OperationAnnotation, infrav1.OperationAnnotation, "{}"),
		"trust in another portal": annotate(gone, "trusts another portal", infrav1.DecisionAnnotation, infrav1.DecisionTrust.About("x")),
		"an operation by server-side apply": {infrav1.OperationAnnotation, func(c client.Client) error {
			applied := &unstructured.Unstructured{}
			applied.SetGroupVersionKind(infrav1.GroupVersion.WithKind("PortalControlPlane"))
			applied.SetNamespace(plain.Namespace)
			applied.SetName(plain.Name)
			applied.SetAnnotations(map[string]string{infrav1.OperationAnnotation: "{}"})
			return c.Apply(f.Context(), client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("tenant"), client.ForceOwnership, client.DryRunAll)
		}},
	}
}

// kind returns the kind of the object.
func (f *fixture) kind(o client.Object) string {
	gvk, err := box.Client.GroupVersionKindFor(o)
	f.Expect(err).NotTo(HaveOccurred())
	return gvk.Kind
}

// owner creates the object of a portal cluster.
func (f *fixture) owner() *infrav1.PortalControlPlane {
	f.Helper()
	cp := f.objects.ControlPlane.DeepCopy()
	cp.Name, cp.GenerateName, cp.Spec.ClusterID = "", "owner-", "cluster-1"
	cp.Annotations = map[string]string{infrav1.RecordAnnotation: `{"size":1}`, infrav1.OperationAnnotation: "{}"}
	f.create(cp)
	return cp
}

// TestAdoption tries each write that can take over a portal cluster, as a tenant with every right in the namespace, and as a user who may
// also adopt. The refusals name the written field and the missing right.
func TestAdoption(t *testing.T) {
	f := newFixture(t)
	tenant, adopter := f.tenant(), f.adopter()
	// A tenant can bind the ClusterRole in its own namespace. That grants nothing.
	f.Expect(tenant.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "adopter"}, RoleRef: role("ClusterRole", adopterRole),
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: f.namespace + "-tenant"}},
	})).To(Succeed())
	for _, attempts := range []map[string]attempt{f.creations(), f.changes(tenant)} {
		for title, a := range attempts {
			err := a.try(tenant)
			f.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", title, err)
			f.Expect(err.Error()).To(And(ContainSubstring(a.says), ContainSubstring("verb adopt")), title)
			f.Expect(a.try(adopter)).To(Succeed(), title)
		}
	}
}

const adopterRole = "capportal-adopter"

// adopter returns a client of a tenant who is bound to the ClusterRole adopter in the whole cluster.
func (f *fixture) adopter() client.Client {
	f.Helper()
	c := f.user("adopter", f.namespace, everything)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.namespace + "-adopter"}, RoleRef: role("ClusterRole", adopterRole),
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: f.namespace + "-adopter"}},
	}
	f.create(binding)
	f.Cleanup(func() { f.Expect(box.Client.Delete(context.WithoutCancel(f.Context()), binding)).To(Succeed()) })
	return c
}

// TestWhatStaysFree checks what a tenant may do without the right: apply existing values again, change other fields, remove annotations,
// and answer the provider's questions. A write of the status changes nothing else.
func TestWhatStaysFree(t *testing.T) {
	f := newFixture(t)
	cp, tenant := f.owner(), f.tenant()
	for title, change := range map[string]func(*infrav1.PortalControlPlane){
		"another version":            func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" },
		"without its operation":      func(cp *infrav1.PortalControlPlane) { delete(cp.Annotations, infrav1.OperationAnnotation) },
		"the decision to retry":      decided(infrav1.DecisionRetry),
		"the decision to abandon it": decided(infrav1.DecisionAbandon),
		"the decision to delete it":  decided(infrav1.DecisionDelete),
	} {
		f.Expect(changed(f, tenant, cp, change)).To(Succeed(), title)
	}
	again := cp.DeepCopy()
	f.Expect(tenant.Update(t.Context(), again)).To(Succeed(), "the same values again")

	f.Expect(f.report(tenant, again, func() {
		again.Annotations[infrav1.RecordAnnotation], again.Spec.ClusterID, again.Status.Version = `{"size":2}`, "cluster-2", "v1"
	})).To(Succeed())
	f.Expect(box.Client.Get(t.Context(), client.ObjectKeyFromObject(cp), again)).To(Succeed())
	f.Expect(again.Annotations).To(Equal(cp.Annotations))
	f.Expect(again.Spec.ClusterID).To(Equal("cluster-1"))
	f.Expect(again.Status.Version).To(Equal("v1"), "the write must take effect")
}

func decided(decision infrav1.Decision) func(*infrav1.PortalControlPlane) {
	return func(cp *infrav1.PortalControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, decision.About("x"))
	}
}

// report patches the status of the object as the user.
func (f *fixture) report(c client.Client, o client.Object, change func()) error {
	before, _ := o.DeepCopyObject().(client.Object)
	change()
	return c.Status().Patch(f.Context(), o, client.MergeFrom(before))
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now()}
}
