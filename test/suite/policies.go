// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// AwaitPolicies waits until the API server enforces all stored policies. The API server reloads all of them about once a second, so they
// are in force once a policy that is created last is in force.
func AwaitPolicies(ctx context.Context, box *sandbox.Sandbox) error {
	last := metav1.ObjectMeta{Name: "policies-are-in-force"}
	all := []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}}
	for _, o := range []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: last, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: all},
			Validations:      []admissionregistrationv1.Validation{{Expression: "object.metadata.name != '" + last.Name + "'"}},
		}},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: last, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: last.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}},
	} {
		if err := box.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	return wait.PollUntilContextCancel(ctx, burst, true, func(ctx context.Context) (bool, error) {
		refused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: last.Name}}
		err := box.Client.Create(ctx, refused, client.DryRunAll)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return true, nil
		}
		return false, err
	})
}
