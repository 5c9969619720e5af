// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// role is a Role or a ClusterRole.
type role struct {
	kind, name string
	rules      []rbacv1.PolicyRule
}

func roles(t *testing.T) []role {
	t.Helper()
	g := NewWithT(t)
	var all []role
	for _, object := range components(t) {
		switch object.GetKind() {
		case "ClusterRole":
			r := &rbacv1.ClusterRole{}
			convert(t, object, r)
			g.Expect(r.AggregationRule).To(BeNil(), "an aggregated role could grant rights that no one has reviewed")
			all = append(all, role{"ClusterRole", r.Name, r.Rules})
		case "Role":
			r := &rbacv1.Role{}
			convert(t, object, r)
			all = append(all, role{"Role", r.Name, r.Rules})
		}
	}
	g.Expect(len(all)).To(BeNumerically(">=", 3))
	return all
}

// TestRoles checks that no role has a wildcard, may delete Secrets, or lets its users raise their own rights.
func TestRoles(t *testing.T) {
	for _, role := range roles(t) {
		t.Run(role.kind+" "+role.name, func(t *testing.T) {
			g := NewWithT(t)
			for _, rule := range role.rules {
				for _, words := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
					g.Expect(words).NotTo(ContainElement(ContainSubstring("*")))
				}
				if slices.Contains(rule.Resources, "secrets") {
					g.Expect(rule.Verbs).NotTo(ContainElement(HavePrefix("delete")))
				}
				g.Expect(rule.APIGroups).NotTo(ContainElement("rbac.authorization.k8s.io"))
				g.Expect(rule.Verbs).NotTo(ContainElements(BeElementOf("escalate", "bind", "impersonate")))
				g.Expect(rule.Resources).NotTo(ContainElement(BeElementOf("pods/exec", "nodes/proxy", "serviceaccounts/token")))
			}
		})
	}
}

// TestBindings checks that all rights go to the manager's ServiceAccount.
func TestBindings(t *testing.T) {
	g := NewWithT(t)
	manager := one(t, components(t), "ServiceAccount")
	bound := 0
	for _, object := range components(t) {
		var subjects []rbacv1.Subject
		switch object.GetKind() {
		case "ClusterRoleBinding":
			b := &rbacv1.ClusterRoleBinding{}
			convert(t, object, b)
			subjects = b.Subjects
			g.Expect(b.RoleRef.Name).To(Equal("capportal-manager-role"))
		case "RoleBinding":
			b := &rbacv1.RoleBinding{}
			convert(t, object, b)
			subjects = b.Subjects
		default:
			continue
		}
		bound++
		g.Expect(subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: home, Name: manager.GetName()}), object.GetName())
	}
	g.Expect(bound).To(Equal(2))
	g.Expect(deployment(t).Spec.Template.Spec.ServiceAccountName).To(Equal(manager.GetName()))
}

// removeLeases makes the next test find no lease.
func removeLeases(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if err := box.Client.DeleteAllOf(context.WithoutCancel(t.Context()), &coordinationv1.Lease{}, client.InNamespace(home)); err != nil {
			t.Error(err)
		}
	})
}

// TestLease checks that the manager can create and renew its lease, and change no other lease.
func TestLease(t *testing.T) {
	g := NewWithT(t)
	removeLeases(t)
	manager := rest.CopyConfig(box.Config)
	manager.Impersonate.UserName = "system:serviceaccount:" + home + ":" + deployment(t).Spec.Template.Spec.ServiceAccountName
	clients, err := kubernetes.NewForConfig(manager)
	g.Expect(err).NotTo(HaveOccurred())
	lock := func(name string) *resourcelock.LeaseLock {
		return &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: home, Name: name},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "test"},
		}
	}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "test", LeaseDurationSeconds: 15}
	ours := lock("controller-leader-election-capportal")
	g.Expect(ours.Create(t.Context(), record)).To(Succeed())
	_, _, err = ours.Get(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	record.LeaderTransitions = 1
	g.Expect(ours.Update(t.Context(), record)).To(Succeed())

	other := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "others"}}
	g.Expect(box.Client.Create(t.Context(), other)).To(Succeed())
	_, _, err = lock(other.Name).Get(t.Context())
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	err = clients.CoordinationV1().Leases(home).Delete(t.Context(), ours.LeaseMeta.Name, metav1.DeleteOptions{})
	g.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
}
