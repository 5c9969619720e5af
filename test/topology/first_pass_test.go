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
	w := newWorld(t, 2, 1)
	allow := w.denyDeployments()
	w.apply()
	told := w.conditionOf(w.controlPlane(), infrav1.ProvisionedCondition)
	w.Eventually(told).Should(And(HavePrefix("False "+infrav1.WaitingForWorkersReason), ContainSubstring("workers-0, workers-1")))
	w.Eventually(w.asked).Should(Equal([]string{createRequest}))
	controlPlane := w.controlPlane()
	w.Expect(box.Client.Get(t.Context(), client.ObjectKeyFromObject(controlPlane), controlPlane)).To(Succeed())
	created := slices.IndexFunc(w.requestLog(), func(e emulator.LogEntry) bool { return e.Method == "POST" && e.Route == "/kubernetes-clusters" })
	w.Expect(w.requestLog()[created].Time).To(BeTemporally(">=", controlPlane.CreationTimestamp.Add(time.Minute)), "the time of the creation: the provider waits a minute")
	allow()
	w.settled(3)
	w.Expect(w.asked()).To(Equal([]string{createRequest}), "the provider removes no worker in the meantime")
}

// denyDeployments creates a policy that refuses new MachineDeployments in the namespace until the test calls allow.
func (w *world) denyDeployments() (allow func()) {
	w.Helper()
	meta := metav1.ObjectMeta{Name: "deny-" + w.namespace}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.namespace}},
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
	w.create(policy)
	w.create(binding)
	w.Eventually(func() error {
		return box.Client.Create(w.Context(), &clusterv1.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "try"},
			Spec: clusterv1.MachineDeploymentSpec{ClusterName: name, Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
				ClusterName: name, Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("")},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachineTemplate", Name: "any"},
			}}},
		}, client.DryRunAll)
	}).Should(MatchError(ContainSubstring("not now")))
	return func() {
		w.Expect(box.Client.Delete(w.Context(), binding)).To(Succeed())
		w.Expect(box.Client.Delete(w.Context(), policy)).To(Succeed())
	}
}
