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

func uids(nodes []corev1.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, string(n.UID))
	}
	return all
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
