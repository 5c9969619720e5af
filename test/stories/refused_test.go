// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestScaleDownIsRefused makes the portal refuse to remove workers, or fail to. The drained nodes stay cordoned, and a further
// scale-down drains one more. The user then raises the replicas one by one, and each time one node becomes schedulable again.
func TestScaleDownIsRefused(t *testing.T) {
	t.Parallel()
	for title, test := range map[string]struct {
		fault  emulator.Fault
		reason string
	}{
		"at once":     {emulator.Fault{Status: 422, Code: "INVALID_PARAMETER", Message: "not now"}, infrav1.RefusedReason},
		"by its jobs": {emulator.Fault{Job: emulator.JobFails}, infrav1.JobFailedReason},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.deployment.Spec.Replicas = ptr.To[int32](3)
			s.controlPlane.Spec.RemovalOrder = "Newest" // otherwise the first request would remove one worker only
			s.apply()
			s.settled(3)
			before := uids(s.Nodes())
			s.placePods()
			test.fault.Method, test.fault.Path = "POST", "/kubernetes-clusters/*/scale"
			s.strike(test.fault)
			for _, replicas := range []int{2, 1} {
				s.scale(int32(replicas))
				s.Eventually(s.Machines).Should(HaveLen(replicas))
				s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(
					And(HavePrefix("False "+test.reason), MatchRegexp("[Ss]cale from (at most )?3 to %d workers", replicas)))
				s.Consistently(s.pods, 5*time.Second).Should(HaveLen(replicas), "the provider drains only the surplus nodes")
				s.Expect(s.cordoned()).To(HaveLen(3-replicas), "drained nodes stay drained")
			}
			s.scale(2)
			s.Eventually(s.cordoned).Should(HaveLen(1), "only one drained node becomes schedulable again")
			s.scale(3)
			s.settled(3)
			s.Expect(uids(s.Nodes())).To(ConsistOf(before))
			s.Expect(s.removals()).To(BeEmpty())
			s.Expect(s.cordoned()).To(BeEmpty())
			s.unmarked()
			s.end()
		})
	}
}

// TestRetainInAScaleDown deletes the Cluster with Retain while the portal refuses a scale from 3 to 1. One node is drained by then, and core
// drains another, whose Pod a PodDisruptionBudget protects. All nodes of the portal cluster that stays must be schedulable.
func TestRetainInAScaleDown(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Replicas = ptr.To[int32](3)
	s.apply()
	s.settled(3)
	s.onePodPerNode(3, 2)
	s.strike(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters/*/scale", Status: 409, Code: "RESOURCE_BUSY", Message: "not now"})
	s.scale(1)
	s.Eventually(s.cordoned).Should(HaveLen(2))
	s.Eventually(func() int { return s.running("web") }).Should(Equal(2))
	nodes := &corev1.NodeList{}
	workload := s.Workload()
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	s.Expect(s.Box.Client.Delete(s.Context(), s.cluster)).To(Succeed())
	s.Eventually(s.Gone(s.cluster)).Should(BeTrue())
	s.Expect(s.PortalClusters()).To(HaveLen(1))
	s.Expect(workload.List(s.Context(), nodes)).To(Succeed())
	for _, n := range nodes.Items {
		s.Expect(n.Spec.Unschedulable).To(BeFalse(), n.Name)
		s.Expect(n.Annotations).NotTo(Or(HaveKey(infrav1.DrainedAnnotation), HaveKey(infrav1.DrainStartedAnnotation)), n.Name)
	}
}

// placePods runs a Pod on each worker node.
func (s *story) placePods() {
	s.Helper()
	for i, n := range s.Nodes() {
		s.Expect(s.Workload().Create(s.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("pod-%d", i)},
			Spec:       corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "main", Image: "main"}}},
		})).To(Succeed())
	}
	s.Eventually(s.pods).Should(HaveEach(HaveSuffix(" Running")))
}

func (s *story) pods() (names []string) {
	s.Helper()
	list := &corev1.PodList{}
	s.Expect(s.Workload().List(s.Context(), list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
	for _, pod := range list.Items {
		names = append(names, fmt.Sprintf("%s %s", pod.Name, pod.Status.Phase))
	}
	return names
}

// cordoned returns the worker Nodes that are unschedulable.
func (s *story) cordoned() []corev1.Node {
	return slices.DeleteFunc(s.Nodes(), func(n corev1.Node) bool { return !n.Spec.Unschedulable })
}
