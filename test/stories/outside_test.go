// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// person returns a client of the portal for a person who works on the portal's own pages with the same account.
func (s *story) person() *cloud.Client {
	s.Helper()
	c, err := cloud.New(cloud.Config{
		BaseURL: s.Box.Portal.URL(), CABundle: s.Box.Portal.CAPEM(), Wait: true,
		Email: s.secret.StringData[infrav1.IdentityEmail], Password: s.secret.StringData[infrav1.IdentityPassword],
	})
	s.Expect(err).NotTo(HaveOccurred())
	return c
}

// TestAdoption deletes a Cluster, retains its portal cluster, and adopts it again by its id. Without a MachineDeployment the
// provider must not remove nodes. Then the story adds a MachineDeployment. Its Machine is deleted by hand, after its PortalMachine, so core
// knows the node only from the Machine. All nodes stay.
func TestAdoption(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.controlPlane.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	s.apply()
	s.settled(2)
	id, before := s.PortalClusters()[0].ID, uids(s.Nodes())
	for _, o := range s.objects()[1:] {
		s.Expect(s.Box.Client.Delete(s.Context(), o)).To(Succeed())
	}
	s.Eventually(func() int { return len(s.Machines()) }).Should(BeZero())
	s.Expect(s.PortalClusters()).To(HaveLen(1), "the portal cluster is retained")

	s.compose()
	s.controlPlane.Spec.ClusterID, s.controlPlane.Spec.DeletionPolicy = id, infrav1.DeletionPolicyDelete
	for _, o := range []client.Object{s.cluster, s.portalCluster, s.controlPlane} {
		s.Eventually(func() error { return s.Box.Client.Create(s.Context(), o) }).Should(Succeed())
	}
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.WaitingForObjectReason), ContainSubstring("2 worker nodes stay")))
	s.deployment.Spec.Replicas = ptr.To[int32](1)
	s.Create(s.deployment)
	s.Create(s.template)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.NodesUnclaimedReason), ContainSubstring("Raise the replicas until each node has a Machine")))
	s.Eventually(func() bool { all := s.Machines(); return len(all) == 1 && all[0].Status.NodeRef.IsDefined() }).Should(BeTrue())
	victim := s.Machines()[0]
	claim := &infrav1.PortalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: victim.Spec.InfrastructureRef.Name}}
	s.Expect(s.Box.Client.Delete(s.Context(), claim)).To(Succeed())
	s.deleteMachine(victim)
	s.scale(2)
	s.settled(2)
	s.Expect(uids(s.Nodes())).To(ConsistOf(before), "no Node was deleted or replaced")
	s.end()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, "DELETE {cluster_id} 202"}))
}

// TestHealthCheckCostsOneMachine deletes a Node object, as a user may do by mistake. A MachineHealthCheck replaces the Machine
// once, and the provider asks the portal for nothing.
func TestHealthCheckCostsOneMachine(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.checkHealth()
	lost := s.Nodes()[0]
	first := s.machineNames()
	s.Expect(s.Workload().Delete(s.Context(), &lost)).To(Succeed())
	s.Eventually(s.replacements(first)).Should(HaveLen(1))
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False"))
	names := s.machineNames()
	s.Eventually(s.checked).Should(Equal(names), "the health check has looked at the new Machine")
	s.Expect(s.machineNames()).To(Equal(names), "it replaces no other one")
	s.Expect(s.Changes()).To(Equal([]string{createRequest}))
	s.end()
}

// TestDeadNode stops a kubelet. A MachineHealthCheck replaces one Machine at most, however long the node is dead, because a new
// Machine gets the same node. A condition reports what the user can do. The provider asks the portal for nothing.
func TestDeadNode(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.checkHealth(clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](1)})
	first := s.machineNames()
	node := s.Nodes()[0]
	s.Expect(s.Workload().Patch(s.Context(), &node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"kwok.x-k8s.io/node":null}}}`)))).To(Succeed())
	// Kubernetes' node lifecycle controller writes this after a time without heartbeats.
	s.setNodeCondition(node.Name, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown"})

	s.Eventually(s.replacements(first)).Should(HaveLen(1), "the health check replaces one Machine")
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(
		And(HavePrefix("False "+infrav1.NodesNotReadyReason), ContainSubstring(node.Name), ContainSubstring("ask its support")))
	s.replacedOnce(first, node.Name)
	s.Expect(s.Changes()).To(Equal([]string{createRequest}))

	s.Expect(s.Workload().Patch(s.Context(), &node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"kwok.x-k8s.io/node":"fake"}}}`)))).To(Succeed())
	s.settled(2)
	s.sameNodes()
	s.end()
}

// replacedOnce waits until a Machine that is not among the first ones holds the node, and the health check leaves this Machine alone, because the
// provider has shielded it. test/capibehavior checks that a health check does not replace a Machine that it leaves alone.
func (s *story) replacedOnce(first []string, node string) {
	s.Helper()
	s.Eventually(func() bool {
		return slices.ContainsFunc(s.Machines(), func(m clusterv1.Machine) bool {
			return m.Status.NodeRef.Name == node && m.DeletionTimestamp.IsZero() && !slices.Contains(first, m.Name)
		})
	}).Should(BeTrue(), "the new Machine holds the node")
	names := s.machineNames()
	s.Eventually(s.checked).Should(And(HaveLen(1), HaveEach(BeElementOf(first))), "Machines that the health check looks at")
	s.Expect(s.machineNames()).To(Equal(names), "the health check replaces no other Machine")
	s.Expect(s.replacements(first)()).To(HaveLen(1))
}

// checked returns the names of the Machines that the health check has looked at.
func (s *story) checked() []string {
	s.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	s.Get(check)
	return check.Status.Targets
}

// checkHealth creates a MachineHealthCheck for all Machines.
func (s *story) checkHealth(unhealthy ...clusterv1.UnhealthyNodeCondition) {
	s.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	check.Spec.ClusterName = name
	check.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{clusterv1.ClusterNameLabel: name}}
	check.Spec.Checks.UnhealthyNodeConditions = unhealthy
	s.Create(check)
}

// replacements returns a function that names the Machines that are not among the first ones.
func (s *story) replacements(first []string) func() []string {
	return func() []string {
		return slices.DeleteFunc(s.machineNames(), func(name string) bool { return slices.Contains(first, name) })
	}
}

func (s *story) machineNames() (names []string) {
	for _, m := range s.Machines() {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}
