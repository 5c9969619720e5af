// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// authority lists the annotations that decide which portal clusters and jobs the provider acts on.
var authority = []string{infrav1.OperationAnnotation, infrav1.RecordAnnotation, infrav1.NetworkAnnotation, infrav1.OwnerAnnotation}

// tenancy is a namespace in which one user has all rights. The user has none elsewhere, and no manager watches the namespace.
type tenancy struct {
	*WithT
	*testing.T
	namespace string
	tenant    client.Client
}

func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	y := &tenancy{WithT: NewWithT(t), T: t}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-"}}
	y.create(box.Client, namespace)
	y.namespace = namespace.Name
	user := "user of " + y.namespace
	everything := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	meta := metav1.ObjectMeta{Namespace: y.namespace, Name: "everything"}
	y.create(box.Client, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{everything}})
	y.create(box.Client, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "everything"}, Subjects: subjects(user),
	})
	y.tenant = as(t, user)
	return y
}

func subjects(user string) []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
}

func (y *tenancy) create(c client.Client, o client.Object) {
	y.Helper()
	y.Expect(c.Create(y.Context(), o)).To(Succeed())
}

// controlPlane returns a PortalControlPlane that does not exist yet.
func (y *tenancy) controlPlane(name string) *infrav1.PortalControlPlane {
	return &infrav1.PortalControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, Name: name},
		Spec:       infrav1.PortalControlPlaneSpec{Version: "v1.35.6", Replicas: ptr.To[int32](1)},
	}
}

// portalCluster returns a PortalCluster that does not exist yet.
func (y *tenancy) portalCluster(name string) *infrav1.PortalCluster {
	return &infrav1.PortalCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, Name: name},
		Spec: infrav1.PortalClusterSpec{
			IdentityRef: infrav1.PortalIdentityReference{Name: "identity"}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
		},
	}
}

// refused checks that the policy refuses a write, with a message that names the written field and the missing right.
func (y *tenancy) refused(err error, what string) {
	y.Helper()
	y.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	y.Expect(err.Error()).To(And(ContainSubstring(what), ContainSubstring("verb adopt")))
}

// TestAdoption creates objects with each of these fields, as a tenant with every right in the namespace and as a user who may adopt.
// TestWhatStaysFree changes existing objects, and package attacks tries what a tenant could gain.
func TestAdoption(t *testing.T) {
	y := newTenancy(t)
	// A tenant can bind the ClusterRole in its own namespace. That grants nothing.
	y.create(y.tenant, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, Name: "adopter"}, Subjects: subjects("user of " + y.namespace),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capportal-adopter"},
	})
	adopter := y.adopter()
	check := func(what string, object func() client.Object) {
		y.Helper()
		y.refused(y.tenant.Create(t.Context(), object(), client.DryRunAll), what)
		y.Expect(adopter.Create(t.Context(), object(), client.DryRunAll)).To(Succeed(), what)
	}
	for _, key := range authority {
		check(key, func() client.Object {
			o := y.controlPlane("prod")
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, key, "{}")
			return o
		})
		check(key, func() client.Object {
			o := y.portalCluster("prod")
			metav1.SetMetaDataAnnotation(&o.ObjectMeta, key, "{}")
			return o
		})
	}
	check("spec.clusterID", func() client.Object {
		o := y.controlPlane("prod")
		o.Spec.ClusterID = "cluster-1"
		return o
	})
}

// adopter returns a client of a tenant who is bound to the ClusterRole adopter in the whole cluster.
func (y *tenancy) adopter() client.Client {
	y.Helper()
	user := "adopter of " + y.namespace
	y.create(box.Client, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, Name: "everything-of-adopter"}, Subjects: subjects(user),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "everything"},
	})
	y.bindAdopter(user)
	return as(y.T, user)
}

// bindAdopter binds the ClusterRole adopter until the test ends.
func (y *tenancy) bindAdopter(user string) {
	y.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "adopter-"}, Subjects: subjects(user),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capportal-adopter"},
	}
	y.create(box.Client, binding)
	y.Cleanup(func() {
		if err := box.Client.Delete(context.WithoutCancel(y.Context()), binding); err != nil {
			y.Error(err)
		}
	})
}

// TestWhatStaysFree checks what a tenant may do without the right: apply existing values again, change other fields, remove annotations,
// and answer the provider's questions. The status has no annotations.
func TestWhatStaysFree(t *testing.T) {
	y := newTenancy(t)
	cp := y.controlPlane("prod")
	cp.Spec.ClusterID = "cluster-1"
	cp.Annotations = map[string]string{infrav1.RecordAnnotation: `{"size":1}`, infrav1.OperationAnnotation: "{}"}
	y.create(box.Client, cp)
	key := client.ObjectKeyFromObject(cp)
	try := func(change func(*infrav1.PortalControlPlane)) error {
		got := &infrav1.PortalControlPlane{}
		y.Expect(y.tenant.Get(y.Context(), key, got)).To(Succeed())
		change(got)
		return y.tenant.Update(y.Context(), got)
	}
	y.Expect(try(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" })).To(Succeed())
	for _, decision := range []infrav1.Decision{infrav1.DecisionRetry, infrav1.DecisionAbandon, infrav1.DecisionDelete} {
		y.Expect(try(func(cp *infrav1.PortalControlPlane) { cp.Annotations[infrav1.DecisionAnnotation] = decision.About("x") })).To(Succeed(), decision)
	}
	y.refused(try(func(cp *infrav1.PortalControlPlane) {
		cp.Annotations[infrav1.DecisionAnnotation] = infrav1.DecisionTrust.About("x")
	}), "trusts another portal")
	y.refused(try(func(cp *infrav1.PortalControlPlane) { cp.Annotations[infrav1.RecordAnnotation] = `{"size":2}` }), infrav1.RecordAnnotation)
	y.Expect(try(func(cp *infrav1.PortalControlPlane) { delete(cp.Annotations, infrav1.OperationAnnotation) })).To(Succeed())
	y.refused(try(func(cp *infrav1.PortalControlPlane) { cp.Annotations[infrav1.OperationAnnotation] = "{}" }), infrav1.OperationAnnotation)

	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"metadata":{"annotations":{%q:"{}"}},"spec":{"clusterID":"cluster-2"},"status":{"version":"v1"}}`, infrav1.OperationAnnotation))
	y.Expect(y.tenant.Status().Patch(y.Context(), cp, patch)).To(Succeed())
	got := &infrav1.PortalControlPlane{}
	y.Expect(y.tenant.Get(y.Context(), key, got)).To(Succeed())
	y.Expect(got.Annotations).NotTo(HaveKey(infrav1.OperationAnnotation))
	y.Expect(got.Spec.ClusterID).To(Equal("cluster-1"))
	y.Expect(got.Status.Version).To(Equal("v1"), "the write must take effect")
}
