// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSecretsPolicy checks that the policy for the manager's account names it, also if clusterctl installs into another namespace. Package
// contract checks what the policy refuses.
func TestSecretsPolicy(t *testing.T) {
	g := NewWithT(t)
	objects := components(t)
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ValidatingAdmissionPolicy" && o.GetName() == "capportal-manager-secrets"
	})
	g.Expect(i).To(BeNumerically(">=", 0))
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	convert(t, objects[i], policy)
	account := one(t, objects, "ServiceAccount").GetName()
	g.Expect(policy.Spec.MatchConditions[0].Expression).To(Equal("(request.userInfo.username + ':').endsWith(':" + account + ":')"))
	for _, condition := range policy.Spec.MatchConditions {
		g.Expect(condition.Expression).NotTo(ContainSubstring(home))
	}
}

// TestNamespaced checks that the optional component restricts the manager to one namespace. Package contract checks its rights.
func TestNamespaced(t *testing.T) {
	manager := deploymentOf(t, overlaid(t, "namespaced")).Spec.Template.Spec.Containers[0]
	NewWithT(t).Expect(manager.Args).To(ContainElements("--leader-elect", "--namespace=fleet"))
}
