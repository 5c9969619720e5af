// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// TestRevokedPassword: once the portal has refused any login of the identity, the condition reports it, and provisioned stays
// true. The new password in the Secret counts at once.
func TestRevokedPassword(t *testing.T) {
	const changed = "portal-password-changed-6e02"
	b := newBench(t, nil)
	b.reconcile(3)
	b.says(infrav1.IdentityReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
	id, o := b.r.Identities.Resolve(t.Context(), "default", b.get().Spec.IdentityRef)
	if !o.IsDone() {
		t.Fatalf("%+v", o)
	}
	if err := id.Portal.RequestPasswordReset(t.Context(), "a@portal.example"); err != nil {
		t.Fatal(err)
	}
	b.must(id.Portal.ResetPassword(t.Context(), b.portal.Mailbox("a@portal.example")[0].ResetToken, changed))
	if _, err := id.Portal.KubernetesVersions(t.Context()); !cloud.IsUnauthorized(err) {
		t.Fatalf("the portal still takes the old token and password: %v", err)
	}
	logins := b.calls("POST", "/login")
	b.reconcile(3)
	b.says(infrav1.IdentityReadyCondition, metav1.ConditionFalse, infrav1.UnauthorizedReason, "Correct email and password")
	b.says(infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.UnauthorizedReason, "Correct email and password")
	b.says(infrav1.NetworkReadyCondition, metav1.ConditionUnknown, infrav1.WaitingForDependencyReason, "IdentityReady")
	if p := b.get().Status.Initialization.Provisioned; p == nil || !*p {
		t.Error("no longer provisioned")
	}
	if n := b.calls("POST", "/login") - logins; n != 0 {
		t.Errorf("%d more logins with a password that was just refused", n)
	}
	secret := b.secret()
	secret.Data[infrav1.IdentityPassword] = []byte(changed)
	b.must(b.store.Update(t.Context(), secret))
	b.reconcile(3)
	b.says(infrav1.IdentityReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
	b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
}
