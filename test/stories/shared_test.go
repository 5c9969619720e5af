// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestSharedIdentity uses an account whose Secret the tenant of the namespace cannot read. The namespace can use it only while the identity allows
// that, also to delete the cluster that it has created.
func TestSharedIdentity(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	s.secret.Namespace, s.secret.Name = "capportal-system", "shared-account"
	shared := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Spec: infrav1.PortalClusterIdentitySpec{
		SecretRef:         infrav1.PortalClusterIdentitySecretReference{Name: s.secret.Name},
		AllowedNamespaces: &infrav1.PortalIdentityNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"shared": "yes"}}},
	}}
	s.PortalCluster.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: shared.Name}
	label := func(value string) {
		suite.Change(s.Fixture, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, func(n *corev1.Namespace) { n.Labels["shared"] = value })
	}
	s.Create(shared)
	s.apply()
	s.Eventually(s.Condition(s.PortalCluster, infrav1.ReadyCondition)).Should(HavePrefix("False " + infrav1.IdentityNotAllowedReason))
	label("yes")
	s.settled(2)
	s.cannotRead(shared, s.secret)
	label("no")
	s.scale(3)
	s.Eventually(s.Condition(s.ControlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.IdentityNotAllowedReason))
	s.Expect(s.Box.Client.Delete(s.Context(), s.Cluster)).To(Succeed())
	s.Eventually(s.Condition(s.ControlPlane, clusterv1.DeletingCondition)).Should(HavePrefix("True " + infrav1.IdentityNotAllowedReason))
	label("yes")
	s.gone()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, deleteRequest}))
}

// cannotRead checks that a user with all rights in the namespace, and none elsewhere, cannot read the Secret and the identity, and that no object in
// the namespace contains the credentials.
func (s *story) cannotRead(shared *infrav1.PortalClusterIdentity, secret *corev1.Secret) {
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: "tenant"}
	s.Create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}})
	s.Create(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
	})
	config := rest.CopyConfig(s.Box.Config)
	config.Impersonate.UserName = "tenant"
	tenant, err := client.New(config, client.Options{Scheme: s.Box.Client.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	for _, object := range []client.Object{&corev1.Secret{ObjectMeta: secret.ObjectMeta}, &infrav1.PortalClusterIdentity{ObjectMeta: shared.ObjectMeta}} {
		s.Expect(apierrors.IsForbidden(tenant.Get(s.Context(), client.ObjectKeyFromObject(object), object))).To(BeTrue(), "%T", object)
	}
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.EventList{}, &infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &clusterv1.ClusterList{},
	} {
		s.Expect(tenant.List(s.Context(), list, client.InNamespace(s.Namespace))).To(Succeed())
		raw, err := json.Marshal(list)
		s.Expect(err).NotTo(HaveOccurred())
		text := string(raw)
		if secrets, ok := list.(*corev1.SecretList); ok { // their values are encoded in the JSON
			for _, one := range secrets.Items {
				for _, value := range one.Data {
					text += string(value)
				}
			}
		}
		s.Expect(text).NotTo(Or(ContainSubstring(s.User.Password), ContainSubstring(s.User.Email), ContainSubstring(secret.Name)), "%T", list)
	}
}
