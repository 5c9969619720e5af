// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestFirstPassFails keeps the topology controller from creating MachineDeployments in its first reconcile. After that, the
// topology controller waits for the control plane, so the control plane must not wait for the MachineDeployments. The provider
// creates the portal cluster with all workers of the topology, and keeps the workers until the MachineDeployments exist.
func TestFirstPassFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, 1)
	allow := f.denyDeployments()
	f.apply()
	told := f.Condition(f.controlPlane(), infrav1.ProvisionedCondition)
	f.Eventually(told).Should(And(HavePrefix("False "+infrav1.WaitingForObjectReason), ContainSubstring("workers-0, workers-1")))
	f.Eventually(f.Changes).Should(Equal([]string{createRequest}))
	controlPlane := f.controlPlane()
	f.Expect(box.Client.Get(t.Context(), client.ObjectKeyFromObject(controlPlane), controlPlane)).To(Succeed())
	created := slices.IndexFunc(f.RequestLog(), func(e emulator.LogEntry) bool { return e.Method == "POST" && e.Route == "/kubernetes-clusters" })
	f.Expect(f.RequestLog()[created].Time).To(BeTemporally(">=", controlPlane.CreationTimestamp.Add(time.Minute)), "the time of the creation: the provider waits a minute")
	allow()
	f.settled(3)
	f.Expect(f.Changes()).To(Equal([]string{createRequest}), "the provider removes no worker in the meantime")
}

// denyDeployments creates a policy that refuses new MachineDeployments in the namespace until the test calls allow.
func (f *fixture) denyDeployments() (allow func()) {
	f.Helper()
	meta := metav1.ObjectMeta{Name: "deny-" + f.Namespace}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.Namespace}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{
					APIGroups: []string{clusterv1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"machinedeployments"},
				},
			}}},
		},
		Validations: []admissionv1.Validation{{Expression: "false", Message: "not now"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}
	f.Create(policy)
	f.Create(binding)
	f.Eventually(func() error {
		return box.Client.Create(f.Context(), &clusterv1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "try"},
			Spec: clusterv1.MachineDeploymentSpec{ClusterName: name, Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: name, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachineTemplate", Name: "any"},
			}}},
		}, client.DryRunAll)
	}).Should(MatchError(ContainSubstring("not now")))
	return func() {
		f.Expect(box.Client.Delete(f.Context(), binding)).To(Succeed())
		f.Expect(box.Client.Delete(f.Context(), policy)).To(Succeed())
	}
}
