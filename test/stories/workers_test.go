// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// Requests as changes returns them.
const (
	createRequest = "POST kubernetes-clusters 202"
	scaleRequest  = "POST scale 202"
)

// sameNodes waits until the Node objects match the machines that the portal runs, and none of them is cordoned.
func (s *story) sameNodes() {
	s.Helper()
	s.Eventually(func(g Gomega) {
		var want, have []string
		for _, i := range s.Box.Portal.Instances() {
			if i.ClusterID == s.PortalClusters()[0].ID {
				want = append(want, i.Name)
			}
		}
		for _, n := range s.AllNodes() {
			have = append(have, n.Name)
			g.Expect(n.Spec.Unschedulable).To(BeFalse(), "Node %s stays cordoned", n.Name)
		}
		g.Expect(have).To(ConsistOf(want), "Nodes, compared with the machines that the portal runs")
	}).Should(Succeed())
}

// resizes returns the old and the new size of each scale at the portal, in order.
func (s *story) resizes() (all [][2]int) {
	for _, e := range s.RequestLog() {
		var from, to int
		if n, _ := fmt.Sscanf(e.Detail, "size %d → %d", &from, &to); n == 2 {
			all = append(all, [2]int{from, to})
		}
	}
	return all
}

// TestScaleFollowsReplicas scales up and down, and then changes the replicas five times in a row. The speed of the host decides how many of
// the five changes reach the portal and how many steps a scale-down takes. Each request must change the size, each scale-up must have a size
// that the user asked for, and there must not be more scale-ups than the user made.
func TestScaleFollowsReplicas(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.Get(s.template)
	s.Expect(s.template.Status.Capacity).To(Equal(s.Nodes()[0].Status.Capacity), "capacity of a worker, for the cluster autoscaler")
	s.scale(4)
	s.settled(4)
	s.scale(1)
	s.settled(1)
	s.sameNodes()
	for _, replicas := range []int32{2, 3, 1, 2, 1} {
		s.scale(replicas)
	}
	s.settled(1)
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(1))
	s.sameNodes()
	raised, resizes := 0, s.resizes()
	s.Expect(resizes).To(HaveLen(s.asked(scaleRequest)), "%v", s.Changes())
	for i, size := range resizes {
		s.Expect(size[1]).NotTo(Equal(size[0]), "request %d of %v changes nothing", i, resizes)
		if size[1] > size[0] {
			s.Expect(size[1]).To(BeElementOf(4, 2, 3), "request %d of %v", i, resizes)
			raised++
		}
		s.Expect(size[1]).To(BeNumerically(">=", 1), "request %d of %v", i, resizes)
	}
	s.Expect(raised).To(BeNumerically("<=", 4), "scale-ups in %v", resizes)
	s.end()
}

// TestSumOfDeployments creates a second MachineDeployment for a cluster, and deletes it.
func TestSumOfDeployments(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	meta := s.template.ObjectMeta
	meta.Name = "more"
	s.apply()
	more := newDeployment(meta, 1)
	more.Spec.Template.Spec.InfrastructureRef.Name = name // the same template
	more.Spec.Template.Labels = map[string]string{poolLabel: "more"}
	s.Create(more)
	s.settled(3)
	s.Eventually(s.pools).Should(ConsistOf("", "", "more"), "pool labels of the Nodes, which core copies from Machines")
	s.Expect(s.PortalClusters()[0].Size).To(Equal(3))
	s.Expect(s.Changes()).To(Equal([]string{createRequest}), "the first size is the sum")
	s.Expect(s.Box.Client.Delete(s.Context(), more)).To(Succeed())
	s.settled(2)
	s.Expect(s.Changes()).To(Equal([]string{createRequest, scaleRequest}))
	s.sameNodes()
	s.end()
}

// poolLabel has a domain whose labels core copies from Machines to Nodes.
const poolLabel = "node.cluster.x-k8s.io/pool"

func (s *story) pools() (pools []string) {
	for _, n := range s.Nodes() {
		pools = append(pools, n.Labels[poolLabel])
	}
	return pools
}

// deleteMachine deletes the Machine and waits until it is gone.
func (s *story) deleteMachine(victim clusterv1.Machine) {
	s.Helper()
	s.Expect(s.Box.Client.Delete(s.Context(), &victim)).To(Succeed())
	s.Eventually(func() bool {
		return slices.ContainsFunc(s.Machines(), func(m clusterv1.Machine) bool { return m.Name == victim.Name })
	}).Should(BeFalse())
}

func uids(nodes []corev1.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, string(n.UID))
	}
	return all
}

// TestPortalTakesAnotherNode makes core delete the oldest Machines while the portal removes the newest nodes. The Node objects of
// the nodes that still run stay and are schedulable, and the Machines that have lost their nodes take them.
func TestPortalTakesAnotherNode(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Deletion.Order = clusterv1.OldestMachineSetDeletionOrder
	s.apply()
	s.settled(2)
	s.scale(4)
	s.settled(4)
	s.scale(2)
	s.settled(2)
	s.sameNodes()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, scaleRequest, scaleRequest, scaleRequest}), "one worker goes first, which shows the order of removal")
	s.end()
}

// TestBlockedDrainHoldsTheScaleDown protects a Pod with a PodDisruptionBudget. The provider must not ask the portal to remove
// a node until the Pod can be evicted. The Cluster is paused until the Pod runs, although the replicas are lowered before. The provider asks the
// portal for nothing until the user resumes it.
func TestBlockedDrainHoldsTheScaleDown(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.scale(3)
	s.settled(3)
	newest := slices.MaxFunc(s.Machines(), func(a, b clusterv1.Machine) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	s.pause()
	s.scale(2)
	s.protect(newest.Status.NodeRef.Name, "precious")
	s.Expect(s.Changes()).To(Equal([]string{createRequest, scaleRequest}), "requests while the Cluster is paused: only the scale-up before")
	s.resume()
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.DrainingReason), ContainSubstring(newest.Name), ContainSubstring("default/precious")))
	s.release("precious")
	s.settled(2)
	s.noPodWasKilled(1)
	s.Expect(s.Changes()).To(Equal([]string{createRequest, scaleRequest, scaleRequest}))
	s.Eventually(func() []string { return s.eventsOf("Drain") }).Should(ConsistOf(
		And(HavePrefix(infrav1.EventNodeDrainStarted), ContainSubstring("Machine "+newest.Name)),
		And(HavePrefix(infrav1.EventNodeDrainBlocked), ContainSubstring("default/precious")),
		And(HavePrefix(infrav1.EventNodeDrainEnded), ContainSubstring("drained"))), "each event of the drain once")
	s.sameNodes()
	s.end()
}

// eventsOf are the reasons and notes of the control plane's events with the action.
func (s *story) eventsOf(action string) (all []string) {
	s.Helper()
	list := &eventsv1.EventList{}
	s.List(list)
	for _, e := range list.Items {
		if e.Regarding.UID == s.controlPlane.UID && e.Action == action {
			all = append(all, e.Reason+" "+e.Note)
		}
	}
	return all
}

func protectedPod(node string) (*corev1.Pod, *policyv1.PodDisruptionBudget) {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "precious", Labels: map[string]string{"app": "precious"}}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		NodeName:   node,
		Containers: []corev1.Container{{Name: "main", Image: "precious"}},
	}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: meta.Labels},
		}}
	return pod, budget
}

// pause pauses the Cluster, and waits until the provider and core have noticed.
func (s *story) pause() {
	s.Helper()
	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = ptr.To(true) })
	for _, o := range []client.Object{s.controlPlane, s.deployment} {
		s.Eventually(s.Condition(o, clusterv1.PausedCondition)).Should(HavePrefix("True"))
	}
}

func (s *story) resume() {
	s.Helper()
	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
}

// rollOut changes the version of the MachineDeployment's Machines, as users do after an upgrade, and waits until the rollout has
// replaced all Machines.
func (s *story) rollOut(version string) {
	s.Helper()
	old := map[string]bool{}
	for _, m := range s.Machines() {
		old[m.Name] = true
	}
	suite.Change(s.Fixture, s.deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = version })
	s.Eventually(func() (left []string) {
		for _, m := range s.Machines() {
			if old[m.Name] {
				left = append(left, m.Name)
			}
		}
		return left
	}).Should(BeEmpty(), "Machines of the old revision")
}

// TestRolloutTakesNodesOver upgrades the portal cluster and then rolls the Machines out to the new version, with one more Machine at a time and
// none unavailable. The provider asks the portal for one upgrade and nothing else, and all nodes stay. test/capibehavior and controllers/claims
// also have roll-outs without an additional Machine.
func TestRolloutTakesNodesOver(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{
		Type: clusterv1.RollingUpdateMachineDeploymentStrategyType, RollingUpdate: clusterv1.MachineDeploymentRolloutStrategyRollingUpdate{
			MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0)),
		},
	}
	s.apply()
	s.settled(2)
	s.upgrade("v1.36.3")
	s.settled(2)
	before := uids(s.Nodes())
	s.rollOut("v1.36.3")
	s.settled(2)
	s.Expect(uids(s.Nodes())).To(ConsistOf(before), "no Node was deleted or replaced")
	s.sameNodes()
	s.Eventually(s.Condition(s.deployment, clusterv1.MachineDeploymentMachinesUpToDateCondition)).Should(HavePrefix("True"))
	s.Expect(s.Changes()).To(Equal([]string{createRequest, "POST upgrade 202"}))
	s.end()
}

// TestTemplateThatThePortalCannotHonor rolls out another offering, and then the old one again.
func TestTemplateThatThePortalCannotHonor(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	before := uids(s.Nodes())
	s.Create(newTemplate(metav1.ObjectMeta{Namespace: s.Namespace, Name: "large"}, "large"))
	suite.Change(s.Fixture, s.deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = "large" })
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.TemplateNotHonoredReason), ContainSubstring("Revert the template")))
	suite.Change(s.Fixture, s.deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = name })
	s.settled(2)
	s.Expect(uids(s.Nodes())).To(ConsistOf(before))
	s.Expect(s.Changes()).To(Equal([]string{createRequest}))
	s.end()
}

// TestAutoscaler does by hand what the cluster autoscaler's Cluster API provider does. It marks a Machine for deletion, taints its
// Node and lowers the replicas, in the end to 0, which this portal refuses. Then it scales up again, for which the autoscaler
// needs the capacity in the template's status.
func TestAutoscaler(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	unwanted := s.Machines()[0]
	suite.Change(s.Fixture, &unwanted, func(m *clusterv1.Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.DeleteMachineAnnotation, "")
	})
	for _, n := range s.Nodes() {
		if n.Name == unwanted.Status.NodeRef.Name {
			before := n.DeepCopy()
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectNoSchedule})
			s.Expect(s.Workload().Patch(s.Context(), &n, client.MergeFrom(before))).To(Succeed())
		}
	}
	s.scale(1)
	s.settled(1)
	s.Expect(s.Machines()[0].Name).NotTo(Equal(unwanted.Name), "core deletes the Machine that is marked for deletion")
	s.Eventually(func() []corev1.Taint { return s.Nodes()[0].Spec.Taints }).Should(BeEmpty(), "taints of the remaining node")

	s.strike(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters/*/scale", Status: 422, Code: "INVALID_PARAMETER", Field: "size", Count: 1})
	s.scale(0)
	s.Eventually(s.Machines).Should(BeEmpty())
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(
		And(HavePrefix("True"), ContainSubstring("ne worker node stays without a Machine, because the portal refuses a cluster without workers")))
	s.sameNodes()
	s.Get(s.template)
	s.Expect(s.template.Status.Capacity).NotTo(BeEmpty(), "capacity in the template, which the autoscaler needs to scale up from zero")
	s.scale(2)
	s.settled(2)
	s.sameNodes()
	s.end()
}
