// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestRoles checks that no role has a wildcard, may delete Secrets, or lets its users raise their own rights.
func TestRoles(t *testing.T) {
	count := 0
	for _, object := range components(t) {
		if !strings.HasSuffix(object.GetKind(), "Role") {
			continue
		}
		count++
		t.Run(object.GetKind()+" "+object.GetName(), func(t *testing.T) {
			g := NewWithT(t)
			role := &rbacv1.ClusterRole{} // a Role has no other fields
			convert(t, object, role)
			g.Expect(role.AggregationRule).To(BeNil(), "an aggregated role could grant rights that no one has reviewed")
			for _, rule := range role.Rules {
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
	NewWithT(t).Expect(count).To(BeNumerically(">=", 3))
}

// TestBindings checks that all rights go to the manager's ServiceAccount.
func TestBindings(t *testing.T) {
	g := NewWithT(t)
	manager := one(t, components(t), "ServiceAccount").GetName()
	bound := 0
	for _, object := range components(t) {
		if strings.HasSuffix(object.GetKind(), "RoleBinding") {
			bound++
			binding := &rbacv1.ClusterRoleBinding{} // a RoleBinding has no other fields
			convert(t, object, binding)
			g.Expect(binding.Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: home, Name: manager}), object.GetName())
		}
	}
	g.Expect(bound).To(Equal(2))
	g.Expect(deployment(t).Spec.Template.Spec.ServiceAccountName).To(Equal(manager))
}
