// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// share makes the PortalCluster use a PortalClusterIdentity, whose Secret is in another namespace.
func (b *bench) share(change func(*infrav1.PortalClusterIdentity, *corev1.Secret)) *infrav1.PortalClusterIdentity {
	b.Helper()
	b.r.Identities.Namespace = "capportal-system"
	account := b.secret()
	b.must(b.store.Delete(b.Context(), account))
	account.ObjectMeta = metav1.ObjectMeta{Namespace: "capportal-system", Name: "account"}
	shared := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	shared.Spec.SecretRef.Name = account.Name
	shared.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{List: []string{key.Namespace}}
	if change != nil {
		change(shared, account)
	}
	b.must(b.store.Create(b.Context(), account))
	b.must(b.store.Create(b.Context(), shared))
	b.change(func(c *infrav1.PortalCluster) {
		c.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: shared.Name}
	})
	return shared
}

// TestSharedIdentity: a namespace that is allowed can use the identity. When it is not allowed any more, its condition reports
// that, and provisioned stays true.
func TestSharedIdentity(t *testing.T) {
	b := newBench(t, nil)
	shared := b.share(nil)
	b.reconcile(5)
	b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
	b.must(b.store.Get(t.Context(), client.ObjectKeyFromObject(shared), shared))
	shared.Spec.AllowedNamespaces = nil
	b.must(b.store.Update(t.Context(), shared))
	b.reconcile(2)
	b.says(infrav1.IdentityReadyCondition, metav1.ConditionFalse, infrav1.IdentityNotAllowedReason, `PortalClusterIdentity "team"`)
	b.says(infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.IdentityNotAllowedReason, `namespace "default"`)
	if !ptr.Deref(b.get().Status.Initialization.Provisioned, false) {
		t.Error("no longer provisioned")
	}
}

// TestSharedBadPassword names the identity, since the Secret is not the user's to correct.
func TestSharedBadPassword(t *testing.T) {
	b := newBench(t, nil)
	b.share(func(_ *infrav1.PortalClusterIdentity, s *corev1.Secret) {
		s.Data[infrav1.IdentityPassword] = []byte("another")
	})
	b.reconcile(5)
	b.says(infrav1.IdentityReadyCondition, metav1.ConditionFalse, infrav1.UnauthorizedReason, `PortalClusterIdentity "team": `)
	if c := conditions.Get(b.get(), infrav1.IdentityReadyCondition); strings.Contains(c.Message, "account") || strings.Contains(c.Message, "capportal-system") {
		t.Errorf("the message names the Secret: %s", c.Message)
	}
}

// TestSharedPlace: no network is created in a zone or a VPC that the limits do not allow.
func TestSharedPlace(t *testing.T) {
	for title, limits := range map[string]*infrav1.PortalIdentityLimits{"zone": {Zones: []string{"z2"}}, "VPC": {VPCs: []string{"v2"}}} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
			b.share(func(shared *infrav1.PortalClusterIdentity, _ *corev1.Secret) { shared.Spec.Limits = limits })
			b.reconcile(5)
			b.says(infrav1.IdentityReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
			b.says(infrav1.NetworkReadyCondition, metav1.ConditionFalse, infrav1.IdentityNotAllowedReason, `PortalClusterIdentity "team" allows the `+title)
			if n := b.calls("POST", "/networks"); n != 0 || ptr.Deref(b.get().Status.Initialization.Provisioned, false) {
				t.Errorf("%d networks, %+v", n, b.get().Status)
			}
		})
	}
}
