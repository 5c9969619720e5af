// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestSecretsPolicy checks that the policy for the manager's account names it, also if clusterctl installs into another namespace.
func TestSecretsPolicy(t *testing.T) {
	g := NewWithT(t)
	account := one(t, components(t), "ServiceAccount").GetName()
	found := false
	for _, object := range components(t) {
		if object.GetKind() != "ValidatingAdmissionPolicy" || object.GetName() != "capportal-manager-secrets" {
			continue
		}
		found = true
		policy := &admissionv1.ValidatingAdmissionPolicy{}
		convert(t, object, policy)
		g.Expect(policy.Spec.MatchConditions[0].Expression).To(Equal("(request.userInfo.username + ':').endsWith(':" + account + ":')"))
		for _, condition := range policy.Spec.MatchConditions {
			g.Expect(condition.Expression).NotTo(ContainSubstring(home))
		}
	}
	g.Expect(found).To(BeTrue())
}

// TestNamespaced checks that the optional component restricts the manager and the rights of its account to one namespace.
func TestNamespaced(t *testing.T) {
	g := NewWithT(t)
	objects := overlaid(t, "namespaced")
	account := one(t, components(t), "ServiceAccount").GetName()
	d := &appsv1.Deployment{}
	convert(t, one(t, objects, "Deployment"), d)
	g.Expect(d.Spec.Template.Spec.Containers[0].Args).To(ContainElements("--leader-elect", "--namespace=fleet"))
	bound := ""
	for _, object := range objects {
		if object.GetNamespace() != "fleet" && object.GetKind() != "ClusterRole" {
			continue
		}
		switch object.GetKind() {
		case "ClusterRole":
			role := &rbacv1.ClusterRole{}
			convert(t, object, role)
			for _, rule := range role.Rules {
				g.Expect(rule.Resources).NotTo(ContainElement("secrets"), role.Name)
				g.Expect(slices.Contains(rule.Verbs, "watch")).To(BeFalse(), "%s watches %v", role.Name, rule.Resources)
			}
		case "RoleBinding":
			binding := &rbacv1.RoleBinding{}
			convert(t, object, binding)
			g.Expect(binding.Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Namespace: home, Name: account}))
			bound = binding.RoleRef.Name
		case "Role":
			defer func(name string) { g.Expect(bound).To(Equal(name)) }(object.GetName())
		}
	}
	g.Expect(bound).NotTo(BeEmpty())
}
