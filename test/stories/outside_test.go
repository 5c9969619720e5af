// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"flag"
	"slices"
	"testing"
	"time"

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
// provider must not remove nodes. Then the story adds a MachineDeployment.
func TestAdoption(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.person() // reads the credentials while they are there
	s.controlPlane.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
	s.apply()
	s.settled(2)
	id, before := s.PortalClusters()[0].ID, uids(s.Nodes())
	for _, o := range s.objects()[1:] {
		s.Expect(s.Box.Client.Delete(s.Context(), o)).To(Succeed())
	}
	s.Eventually(func() error {
		return client.IgnoreNotFound(s.Box.Client.Get(s.Context(), client.ObjectKeyFromObject(s.portalCluster), s.portalCluster))
	}).Should(Succeed())
	s.Eventually(func() int { return len(s.Machines()) }).Should(BeZero())
	s.Expect(s.PortalClusters()).To(HaveLen(1), "the portal cluster is retained")

	s.compose()
	s.controlPlane.Spec.ClusterID, s.controlPlane.Spec.DeletionPolicy = id, infrav1.DeletionPolicyDelete
	for _, o := range []client.Object{s.cluster, s.portalCluster, s.controlPlane} {
		s.Eventually(func() error { return s.Box.Client.Create(s.Context(), o) }).Should(Succeed())
	}
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.WaitingForObjectReason), ContainSubstring("2 worker nodes stay")))
	s.Consistently(s.Changes, 5*time.Second).Should(Equal([]string{createRequest}))
	s.deployment.Spec.Replicas = ptr.To[int32](1)
	s.Create(s.deployment)
	s.Create(s.template)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.NodesUnclaimedReason), ContainSubstring("Raise the replicas until each node has a Machine")))
	s.Eventually(func() bool { all := s.Machines(); return len(all) == 1 && all[0].Status.NodeRef.IsDefined() }).Should(BeTrue())
	s.deleteMachine(s.Machines()[0])
	s.Consistently(s.Changes, 5*time.Second).Should(Equal([]string{createRequest}), "the provider removes no node that no Machine has held")
	s.scale(2)
	s.settled(2)
	s.Expect(uids(s.Nodes())).To(ConsistOf(before))
	s.end()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, "DELETE {cluster_id} 202"}))
}

// TestScaledOnThePortalsPages adds a worker as a person does on the portal's pages. After two minutes the provider asks the
// portal once to restore the size.
func TestScaledOnThePortalsPages(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	person := s.person()
	s.apply()
	s.settled(2)
	_, err := person.ScaleCluster(s.Context(), s.PortalClusters()[0].ID, 3)
	s.Expect(err).NotTo(HaveOccurred())
	s.Eventually(func() int { return len(s.Nodes()) }).Should(Equal(3))
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.NodesDifferReason))
	s.Expect(s.Changes()).To(Equal([]string{createRequest, scaleRequest}), "the provider does not ask at once: nodes may still join or leave")
	s.Eventually(func() int { return len(s.Nodes()) }).Should(Equal(2))
	s.settled(2)
	s.Expect(s.Changes()).To(Equal([]string{createRequest, scaleRequest, scaleRequest}))
	s.sameNodes()
	s.end()
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
	s.Consistently(s.machineNames, 20*time.Second).Should(Equal(names), "the health check replaces no other Machine")
	s.Expect(s.Changes()).To(Equal([]string{createRequest}))
	s.end()
}

var dead = flag.Duration("dead", 30*time.Second, "how long the node of TestDeadNode is dead")

// TestDeadNode stops a kubelet. A MachineHealthCheck replaces one Machine at most, however long the node is dead, because a new
// Machine would get the same node. A condition reports what the user can do. The provider asks the portal for nothing.
func TestDeadNode(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.checkHealth(clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](1)})
	first := s.machineNames()
	node := s.Nodes()[0]
	s.Expect(s.Workload().Patch(s.Context(), &node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"kwok.x-k8s.io/node":null}}}`)))).To(Succeed())

	s.Eventually(s.replacements(first)).Should(HaveLen(1), "the health check replaces one Machine")
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(
		And(HavePrefix("False "+infrav1.NodesNotReadyReason), ContainSubstring(node.Name), ContainSubstring("ask its support")))
	second := s.machineNames()
	s.Consistently(s.machineNames, *dead).Should(Equal(second), "the health check replaces no other Machine")
	s.Expect(s.Changes()).To(Equal([]string{createRequest}))

	s.Expect(s.Workload().Patch(s.Context(), &node, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"kwok.x-k8s.io/node":"fake"}}}`)))).To(Succeed())
	s.settled(2)
	s.sameNodes()
	s.end()
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
