// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// share makes the PortalCluster use a PortalClusterIdentity, whose Secret is in another namespace.
func (b *bench) share(change func(*infrav1.PortalClusterIdentity, *corev1.Secret)) {
	b.Helper()
	b.r.Identities.Namespace = "capportal-system"
	account := b.secret()
	b.must(b.store.Delete(b.Context(), account))
	account.ObjectMeta = metav1.ObjectMeta{Namespace: "capportal-system", Name: "account"}
	shared := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	shared.Spec.SecretRef.Name = account.Name
	shared.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{List: []string{key.Namespace}}
	change(shared, account)
	b.must(b.store.Create(b.Context(), account))
	b.must(b.store.Create(b.Context(), shared))
	b.change(func(c *infrav1.PortalCluster) {
		c.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: shared.Name}
	})
}

// TestSharedIdentity: a namespace that is not allowed, or a password that the portal refuses, is reported, and nothing is created. Messages
// name the identity and not its Secret, which is not the user's to correct.
func TestSharedIdentity(t *testing.T) {
	for title, test := range map[string]struct {
		change                  func(*infrav1.PortalClusterIdentitySpec, *corev1.Secret)
		condition, reason, says string
	}{
		"namespace": {func(spec *infrav1.PortalClusterIdentitySpec, _ *corev1.Secret) { spec.AllowedNamespaces = nil },
			infrav1.IdentityReadyCondition, infrav1.IdentityNotAllowedReason, `namespace "default"`},
		"password": {func(_ *infrav1.PortalClusterIdentitySpec, s *corev1.Secret) {
			s.Data[infrav1.IdentityPassword] = []byte("another")
		},
			infrav1.IdentityReadyCondition, infrav1.UnauthorizedReason, `PortalClusterIdentity "team": `},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
			b.share(func(shared *infrav1.PortalClusterIdentity, s *corev1.Secret) { test.change(&shared.Spec, s) })
			b.reconcile(5)
			b.says(test.condition, metav1.ConditionFalse, test.reason, test.says)
			if c := conditions.Get(b.get(), test.condition); strings.Contains(c.Message, "account") || strings.Contains(c.Message, "capportal-system") {
				t.Errorf("the message names the Secret: %s", c.Message)
			}
			if n := b.calls("POST", "/networks"); n != 0 || ptr.Deref(b.get().Status.Initialization.Provisioned, false) {
				t.Errorf("%d networks, %+v", n, b.get().Status)
			}
		})
	}
}
