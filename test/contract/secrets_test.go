// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

const managerAccount = "system:serviceaccount:capportal-system:capportal-manager"

// judge checks that the API server has accepted a write, or that the policy has refused it.
func judge(t *testing.T, title string, err error, allowed bool) {
	t.Helper()
	verdict := And(MatchError(apierrors.IsForbidden, "IsForbidden"), MatchError(ContainSubstring("the portal provider may write kubeconfigs")))
	if allowed {
		verdict = Succeed()
	}
	NewWithT(t).Expect(err).To(verdict, title)
}

func newSecret(name string, kind corev1.SecretType, cluster string, data map[string][]byte) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: watched, Name: name}, Type: kind, Data: data}
	if cluster != "" {
		s.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	}
	return s
}

func value(text string) map[string][]byte { return map[string][]byte{"value": []byte(text)} }

// TestManagerCreatesSecrets checks which Secrets the manager's account can create.
func TestManagerCreatesSecrets(t *testing.T) {
	manager := as(t, managerAccount)
	token := newSecret("prod-kubeconfig", corev1.SecretTypeServiceAccountToken, "prod", nil)
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	for title, test := range map[string]struct {
		secret  *corev1.Secret
		allowed bool
	}{
		"kubeconfig":                            {newSecret("prod-kubeconfig", clusterv1.ClusterSecretType, "prod", value("k")), true},
		"empty bootstrap Secret":                {newSecret("prod-md-x", clusterv1.ClusterSecretType, "prod", value("")), true},
		"bootstrap Secret with content":         {newSecret("prod-md-x", clusterv1.ClusterSecretType, "prod", value("x")), false},
		"bootstrap Secret with another key":     {newSecret("prod-md-x", clusterv1.ClusterSecretType, "prod", map[string][]byte{"value": {}, "x": {}}), false},
		"bootstrap Secret without data":         {newSecret("prod-md-x", clusterv1.ClusterSecretType, "prod", nil), false},
		"kubeconfig without label":              {newSecret("prod-kubeconfig", clusterv1.ClusterSecretType, "", value("k")), false},
		"kubeconfig of another Cluster's label": {newSecret("prod-kubeconfig", clusterv1.ClusterSecretType, "test", value("k")), false},
		"opaque kubeconfig":                     {newSecret("prod-kubeconfig", corev1.SecretTypeOpaque, "prod", value("k")), false},
		"opaque Secret":                         {newSecret("other", corev1.SecretTypeOpaque, "", value("k")), false},
		"token of a ServiceAccount":             {token, false},
		"token for nodes":                       {newSecret("bootstrap-token-abcdef", corev1.SecretTypeBootstrapToken, "", nil), false},
	} {
		judge(t, title, manager.Create(t.Context(), test.secret, client.DryRunAll), test.allowed)
	}
}

// TestManagerPatchesSecrets checks which changes to Secrets the manager's account can make.
func TestManagerPatchesSecrets(t *testing.T) {
	g, manager := NewWithT(t), as(t, managerAccount)
	secrets := map[string]*corev1.Secret{
		"identity":   newSecret("rights-identity", corev1.SecretTypeOpaque, "", map[string][]byte{"password": []byte("p")}),
		"kubeconfig": newSecret("rights-kubeconfig", clusterv1.ClusterSecretType, "rights", value("k")),
		"bootstrap":  newSecret("rights-md-x", clusterv1.ClusterSecretType, "rights", value("")),
		"opaque":     newSecret("opaque-kubeconfig", corev1.SecretTypeOpaque, "opaque", value("k")),
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: watched, Name: "rights"}}
	token := newSecret("token-kubeconfig", corev1.SecretTypeServiceAccountToken, "token", nil)
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: account.Name}
	secrets["token"] = token
	g.Expect(box.Client.Create(t.Context(), account)).To(Succeed())
	for _, s := range secrets {
		s.Finalizers = []string{"example.com/kept"}
		g.Expect(box.Client.Create(t.Context(), s)).To(Succeed())
	}
	hold := func(s *corev1.Secret) {
		s.Finalizers = append(s.Finalizers, infrav1.IdentityFinalizer)
		s.Labels = maps.Clone(s.Labels)
		metav1.SetMetaDataLabel(&s.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	}
	content := func(s *corev1.Secret) { s.Data = value("x") }
	owner := func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	}
	annotation := func(s *corev1.Secret) { s.Annotations = map[string]string{"example.com/x": "x"} }
	label := func(s *corev1.Secret) { metav1.SetMetaDataLabel(&s.ObjectMeta, "example.com/x", "x") }
	finalizer := func(s *corev1.Secret) { s.Finalizers = []string{"example.com/other"} }
	for title, test := range map[string]struct {
		secret  string
		change  func(*corev1.Secret)
		allowed bool
	}{
		"identity held":             {"identity", hold, true},
		"identity's content":        {"identity", content, false},
		"identity's owner":          {"identity", owner, false},
		"identity's annotation":     {"identity", annotation, false},
		"identity's label":          {"identity", label, false},
		"identity's finalizer":      {"identity", finalizer, false},
		"identity immutable":        {"identity", func(s *corev1.Secret) { s.Immutable = new(true) }, false},
		"kubeconfig's content":      {"kubeconfig", content, true},
		"kubeconfig's owner":        {"kubeconfig", owner, true},
		"kubeconfig's annotation":   {"kubeconfig", annotation, true},
		"bootstrap Secret's owner":  {"bootstrap", owner, true},
		"bootstrap Secret's data":   {"bootstrap", content, false},
		"opaque kubeconfig's data":  {"opaque", content, false},
		"opaque kubeconfig's owner": {"opaque", owner, false},
		"token's content":           {"token", content, false},
		"token held":                {"token", hold, false},
	} {
		s := secrets[test.secret].DeepCopy()
		g.Expect(box.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s)).To(Succeed())
		before := s.DeepCopy()
		test.change(s)
		judge(t, title, manager.Patch(t.Context(), s, client.MergeFrom(before), client.DryRunAll), test.allowed)
	}
	// The manager can release a held Secret, and the policy limits no other user.
	s := secrets["identity"]
	for _, change := range []func(*corev1.Secret){hold, func(s *corev1.Secret) { s.Finalizers = s.Finalizers[:1] }} {
		before := s.DeepCopy()
		change(s)
		g.Expect(manager.Patch(t.Context(), s, client.MergeFrom(before))).To(Succeed())
	}
	g.Expect(s.Finalizers).To(ConsistOf("example.com/kept"))
	for _, s := range secrets {
		before := s.DeepCopy()
		s.Finalizers = nil
		g.Expect(box.Client.Patch(t.Context(), s, client.MergeFrom(before))).To(Succeed())
		g.Expect(box.Client.Delete(t.Context(), s)).To(Succeed())
	}
}
