// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// home is the namespace of the manager and of the Secrets of PortalClusterIdentities.
const home = "capportal-system"

// newShared returns a PortalClusterIdentity for namespaces that have its name as a label, and its Secret with the account of the story.
func (s *story) newShared(name string, limits *infrav1.PortalIdentityLimits) (*infrav1.PortalClusterIdentity, *corev1.Secret) {
	secret := s.secret.DeepCopy()
	secret.Namespace, secret.Name = home, name+"-account"
	shared := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.PortalClusterIdentitySpec{
		SecretRef:         infrav1.PortalClusterIdentitySecretReference{Name: secret.Name},
		AllowedNamespaces: &infrav1.PortalIdentityNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}},
		Limits:            limits,
	}}
	return shared, secret
}

// share makes the story use the PortalClusterIdentity with the account of the other story.
func (s *story) share(of *story, shared *infrav1.PortalClusterIdentity) {
	s.User.Account = of.User.Account
	s.portalCluster.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: shared.Name}
}

// applyShared creates the objects of a story that shares an identity.
func (s *story) applyShared() {
	s.Helper()
	for _, o := range s.objects()[1:] {
		s.Create(o)
	}
}

// label sets a label of the namespace, or removes it.
func (s *story) label(key string, set bool) {
	s.Helper()
	suite.Change(s.Fixture, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, func(n *corev1.Namespace) {
		if n.Labels[key] = "yes"; !set {
			delete(n.Labels, key)
		}
	})
}

// tenant returns a client with all rights in the namespace of the story, and none elsewhere.
func (s *story) tenant() client.Client {
	s.Helper()
	s.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}})
	s.Create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant-of-" + s.Namespace}},
	})
	config := rest.CopyConfig(s.Box.Config)
	config.Impersonate.UserName = "tenant-of-" + s.Namespace
	c, err := client.New(config, client.Options{Scheme: s.Box.Client.Scheme()})
	s.Expect(err).NotTo(HaveOccurred())
	return c
}

// cannotRead checks that a tenant cannot read the Secret and the identity, and that no object in the namespace contains the credentials.
func (s *story) cannotRead(shared *infrav1.PortalClusterIdentity, secret *corev1.Secret) {
	s.Helper()
	tenant := s.tenant()
	for _, obj := range []client.Object{&corev1.Secret{ObjectMeta: secret.ObjectMeta}, &infrav1.PortalClusterIdentity{ObjectMeta: shared.ObjectMeta}} {
		key := client.ObjectKeyFromObject(obj)
		s.Expect(apierrors.IsForbidden(tenant.Get(s.Context(), key, obj))).To(BeTrue(), "%T %s", obj, key)
	}
	s.Expect(apierrors.IsForbidden(tenant.List(s.Context(), &infrav1.PortalClusterIdentityList{}))).To(BeTrue())
	s.Expect(apierrors.IsForbidden(tenant.List(s.Context(), &corev1.SecretList{}))).To(BeTrue())
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.EventList{}, &infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &clusterv1.ClusterList{},
	} {
		s.Expect(tenant.List(s.Context(), list, client.InNamespace(s.Namespace))).To(Succeed())
		s.Expect(plain(list)).NotTo(Or(
			ContainSubstring(secret.StringData[infrav1.IdentityPassword]), ContainSubstring(secret.StringData[infrav1.IdentityEmail]), ContainSubstring(secret.Name),
		), "%T", list)
	}
}

// plain returns the list as text, with the content of Secrets decoded.
func plain(list client.ObjectList) string {
	raw, _ := json.Marshal(list)
	text := string(raw)
	if secrets, ok := list.(*corev1.SecretList); ok {
		for _, secret := range secrets.Items {
			for _, value := range secret.Data {
				text += "\n" + string(value)
			}
		}
	}
	return text
}

// TestPlain checks that plain shows a password in a Secret.
func TestPlain(t *testing.T) {
	secret := corev1.Secret{Data: map[string][]byte{infrav1.IdentityPassword: []byte(suite.User("story", 0).Password)}}
	if text := plain(&corev1.SecretList{Items: []corev1.Secret{secret}}); !strings.Contains(text, suite.User("story", 0).Password) {
		t.Error(text)
	}
}

// TestSharedIdentity uses one account in two namespaces that cannot read its Secret. The namespaces can use the account only while the identity
// allows them to, and in the zones that it allows. A namespace can always delete the clusters that it has created.
func TestSharedIdentity(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	a, b, third := newStory(t), newStory(t), newStory(t)
	shared, secret := a.newShared("shared", &infrav1.PortalIdentityLimits{Zones: []string{"zone-1"}})
	a.Create(secret.DeepCopy())
	a.Create(shared)
	a.deployment.Spec.Replicas, b.deployment.Spec.Replicas = ptr.To[int32](2), ptr.To[int32](1)
	for _, s := range []*story{a, b, third} {
		s.share(a, shared)
	}
	a.label("shared", true)
	a.applyShared()
	b.applyShared()
	a.settled(2)
	a.Eventually(a.Condition(shared, infrav1.ReadyCondition)).Should(HavePrefix("True"))
	b.Eventually(b.Condition(b.portalCluster, infrav1.ReadyCondition)).Should(HavePrefix(
		`False IdentityNotAllowed: PortalClusterIdentity "shared" does not exist, or does not allow namespace %q. Ask`, b.Namespace))
	a.cannotRead(shared, secret)
	b.cannotRead(shared, secret)
	a.Expect(a.PortalClusters()).To(HaveLen(1), "the namespace that the identity does not allow has no portal cluster")

	b.label("shared", true)
	b.settled(1)
	sharedLimits(a, third)
	sharedIsHeld(a, shared)
	sharedIsWithdrawn(b, shared)
	a.end()
	a.Eventually(func() bool {
		return apierrors.IsNotFound(a.Box.Client.Get(a.Context(), client.ObjectKeyFromObject(shared), shared))
	}).Should(BeTrue(), "the provider releases the identity")
}

// sharedLimits asks for a cluster in a zone that the limits do not allow, and for a third worker where they do.
func sharedLimits(a, third *story) {
	third.label("shared", true)
	third.portalCluster.Spec.ZoneID = "zone-2"
	third.applyShared()
	third.Eventually(third.Condition(third.portalCluster, infrav1.ReadyCondition)).Should(ContainSubstring(
		`PortalClusterIdentity "shared" allows the zones zone-1, but not "zone-2"`))
	third.deleteAll()
	third.Eventually(third.Condition(third.controlPlane, infrav1.ProvisionedCondition)).Should(ContainSubstring("not found"))
	a.Expect(a.PortalClusters()).To(HaveLen(2))
	a.scale(3)
	a.settled(3)
}

// sharedIsHeld deletes the identity while clusters use it. It stays, and the provider keeps using it.
func sharedIsHeld(a *story, shared *infrav1.PortalClusterIdentity) {
	a.Expect(a.Box.Client.Delete(a.Context(), shared)).To(Succeed())
	a.Eventually(a.Condition(shared, clusterv1.DeletingCondition)).Should(HavePrefix("True WaitingForDependency: Waiting for 2 PortalClusters"))
	a.scale(2)
	a.settled(2)
	a.Expect(a.Condition(shared, infrav1.ReadyCondition)()).To(HavePrefix("True"))
}

// sharedIsWithdrawn removes the label from the namespace. The provider scales nothing there, but still deletes the cluster.
func sharedIsWithdrawn(b *story, shared *infrav1.PortalClusterIdentity) {
	b.label("shared", false)
	before := len(b.Changes())
	b.scale(2)
	b.Eventually(b.Condition(b.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False IdentityNotAllowed"))
	b.Expect(b.Changes()).To(HaveLen(before))
	b.Get(shared)
	b.Expect(shared.Status.Clusters).To(ContainElement(infrav1.PortalIdentityCluster{ID: b.controlPlane.Spec.ClusterID, Namespace: b.Namespace}))
	b.Expect(b.Box.Client.Delete(b.Context(), b.cluster)).To(Succeed())
	b.Eventually(func() int { return len(b.PortalClusters()) }).Should(Equal(1))
	b.deleteAll()
	b.Eventually(b.Condition(b.portalCluster, infrav1.ReadyCondition)).Should(ContainSubstring("not found"))
	b.Get(shared)
	b.Expect(shared.Status.Clusters).To(HaveLen(1), "the cluster of the other namespace")
}
