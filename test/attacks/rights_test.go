// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// managerSecrets is the policy that limits an attacker who has the manager's token.
const managerSecrets = policy + "manager-secrets"

func rights() []row {
	return []row{
		{attack: "the manager's token makes a token of another ServiceAccount", heldBy: managerSecrets, attempt: func(t *tenant) string {
			return makesToken(t, "stolen", nil)
		}},
		{attack: "the same, with the name and the label of a kubeconfig", heldBy: managerSecrets, attempt: func(t *tenant) string {
			return makesToken(t, "stolen-kubeconfig", map[string]string{clusterv1.ClusterNameLabel: "stolen"})
		}},
		{attack: "the manager's token makes a bootstrap token", heldBy: managerSecrets, attempt: func(t *tenant) string {
			err := t.manager().Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
				StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
			})
			if !t.accepted(err) {
				return ""
			}
			return "the manager's account made a token that nodes log in with"
		}},
		{attack: "the manager's token changes a Secret of another tenant", heldBy: managerSecrets, attempt: changesSecret},
	}
}

// manager returns a client with the token of the manager's ServiceAccount.
func (t *tenant) manager() client.Client {
	t.Helper()
	token, err := clientset.CoreV1().ServiceAccounts("capportal-system").CreateToken(t.Context(), "capportal-manager", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	t.must(err)
	c, err := client.New(withToken(token.Status.Token), client.Options{Scheme: box.Client.Scheme()})
	t.must(err)
	return c
}

func withToken(token string) *rest.Config {
	config := rest.AnonymousClientConfig(box.Config)
	config.BearerToken = token
	return config
}

// makesToken has the token controller fill a Secret with a token of the account that issues tokens for all other accounts.
func makesToken(t *tenant, name string, labels map[string]string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "powerful-" + t.namespace}}
	t.must(box.Client.Create(t.Context(), account))
	manager := t.manager()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: name, Labels: labels, Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	if !t.accepted(manager.Create(t.Context(), secret)) {
		return ""
	}
	return t.seen(func() string {
		if manager.Get(t.Context(), client.ObjectKeyFromObject(secret), secret) != nil || len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
			return ""
		}
		thief, err := kubernetes.NewForConfig(withToken(string(secret.Data[corev1.ServiceAccountTokenKey])))
		t.must(err)
		who, err := thief.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return ""
		}
		return "the manager's account became " + who.Status.UserInfo.Username
	})
}

func changesSecret(t *tenant) string {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "database"}, Data: map[string][]byte{"password": []byte("old")}}
	t.must(t.client.Create(t.Context(), secret))
	before := secret.DeepCopy()
	secret.Data["password"] = []byte("new")
	if !t.accepted(t.manager().Patch(t.Context(), secret, client.MergeFrom(before))) {
		return ""
	}
	return "the manager's account changed the content of a Secret that is no kubeconfig"
}
