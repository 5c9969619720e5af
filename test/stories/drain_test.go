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
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
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
// portal will remove a node of the other one, which has no limit. So the Pod on this node stays until its budget lets it go.
func TestDrainUnderTheRulesOfTheNode(t *testing.T) {
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

// TestPodWithTwoBudgets drains the nodes of a pool. The eviction API refuses a Pod that two budgets match with an internal error,
// forever. The condition names the Pod and the reason, and when one of the budgets is gone, the scale-down goes on.
func TestPodWithTwoBudgets(t *testing.T) {
	t.Parallel()
	s := newPoolStory(t, 0, 1)
	s.poolSettled(0, 1)
	s.scalePool(2)
	s.poolSettled(0, 2)
	pod := s.protect(s.newest().Name, "precious", "twice")
	s.scalePool(1)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(And(
		HavePrefix("False "+infrav1.DrainingReason), ContainSubstring("default/precious"), ContainSubstring("more than one PodDisruptionBudget")))
	s.survives(pod, 10*time.Second)
	s.release("precious", "twice")
	s.poolSettled(0, 1)
	s.poolGone()
	s.end()
}

// TestLastMachineDeploymentGoes deletes the only MachineDeployment while the portal refuses to scale. Core lets the MachineDeployment go
// when its nodes are drained. The nodes are removed when the portal accepts it, and a new MachineDeployment gets new ones.
func TestLastMachineDeploymentGoes(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	fault := emulator.Fault{ID: "busy " + s.Namespace, Method: "POST", Path: scalePath, Scale: emulator.ScaleDown, Code: emulator.CodeResourceBusy}
	s.strike(fault)
	s.Expect(s.Box.Client.Delete(s.Context(), s.deployment)).To(Succeed())
	s.Eventually(s.Gone(s.deployment)).Should(BeTrue())
	s.Consistently(s.Nodes, 5*time.Second).Should(HaveLen(2), "no object asks for workers, and the portal is busy")
	s.Expect(s.Box.Portal.RemoveFault(fault.ID)).To(BeTrue())
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(0))
	s.Eventually(s.Nodes).Should(BeEmpty())

	s.deployment.ResourceVersion, s.deployment.UID = "", ""
	s.Create(s.deployment)
	s.settled(2)
	s.sameNodes()
	s.end()
}
