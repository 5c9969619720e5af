// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// protect runs a Pod on the node that no eviction may end, and waits until the budgets know the Pod.
func (s *story) protect(node string, budgets ...string) *corev1.Pod {
	s.Helper()
	pod, budget := protectedPod(node)
	workload := s.Workload()
	s.Expect(workload.Create(s.Context(), pod)).To(Succeed())
	for _, name := range budgets {
		budget := budget.DeepCopy()
		budget.Name = name
		s.Expect(workload.Create(s.Context(), budget)).To(Succeed())
		s.Eventually(func() int32 {
			_ = workload.Get(s.Context(), client.ObjectKeyFromObject(budget), budget)
			return budget.Status.CurrentHealthy
		}).Should(BeEquivalentTo(1), "Pods that budget %s counts", name)
	}
	return pod
}

func (s *story) release(budgets ...string) {
	s.Helper()
	for _, name := range budgets {
		_, budget := protectedPod("")
		budget.Name = name
		s.Expect(s.Workload().Delete(s.Context(), budget)).To(Succeed())
	}
}

// survives checks that the Pod is not being deleted.
func (s *story) survives(pod *corev1.Pod, span time.Duration) {
	s.Helper()
	s.Consistently(func(g Gomega) {
		now := &corev1.Pod{}
		g.Expect(s.Workload().Get(s.Context(), client.ObjectKeyFromObject(pod), now)).To(Succeed())
		g.Expect(now.DeletionTimestamp).To(BeNil())
		g.Expect(now.UID).To(Equal(pod.UID))
	}, span, slowPolling).Should(Succeed(), "the Pod that a budget protects")
}

// TestDrainUnderTheRulesOfTheNode has two MachineDeployments. The one whose replicas are lowered limits drains to ten seconds. But the
// portal will remove a node of the other one, which has no limit. So the Pod on this node stays until its budget lets it go. TestRelease of
// controllers/claims, and TestDrainRules and TestDrainNode of controllers/workers check this in virtual time. Here, core drains too.
func TestDrainUnderTheRulesOfTheNode(t *testing.T) {
	suite.Nightly(t)
	t.Parallel()
	s := newStory(t)
	s.controlPlane.Spec.RemovalOrder = infrav1.RemovalOrder("Newest")
	s.apply()
	s.settled(2)
	meta := s.template.ObjectMeta
	meta.Name = "more"
	more := newDeployment(metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name}, 1)
	more.Spec.Template.Spec.InfrastructureRef.Name = name // the same template
	s.Create(more)
	s.settled(3)
	suite.Change(s.Fixture, more, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = ptr.To[int32](2) })
	s.settled(4)
	node := s.newest()
	s.Expect(node.Annotations[clusterv1.OwnerNameAnnotation]).To(HavePrefix("more-"), "the MachineSet that holds the newest node")
	suite.Change(s.Fixture, s.deployment, func(md *clusterv1.MachineDeployment) {
		md.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](10)
	})
	s.Eventually(func() (limited int) {
		for _, m := range s.Machines() {
			limited += int(ptr.Deref(m.Spec.Deletion.NodeDrainTimeoutSeconds, 0)) / 10
		}
		return limited
	}).Should(Equal(2), "Machines with the limit")
	pod := s.protect(node.Name, "precious")

	s.scale(1)
	s.Eventually(func() bool {
		n := &corev1.Node{}
		s.Expect(s.Workload().Get(s.Context(), client.ObjectKeyFromObject(&node), n)).To(Succeed())
		return n.Spec.Unschedulable
	}).Should(BeTrue(), "the drain of the newest node begins")
	s.survives(pod, 50*time.Second)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.DrainingReason), ContainSubstring("default/precious")))
	s.Expect(s.asked("POST scale")).To(Equal(2), "requests to scale: only those for the second MachineDeployment")
	s.release("precious")
	s.settled(3)
	s.sameNodes()
	s.end()
}
