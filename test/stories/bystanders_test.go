// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestHealthCheckOnAnotherCondition uses a MachineHealthCheck of a node condition other than Ready. The Machine that replaces the
// first one gets the same node, so the health check must not replace it again.
func TestHealthCheckOnAnotherCondition(t *testing.T) {
	t.Parallel()
	const trouble corev1.NodeConditionType = "DiskTrouble"
	s := newStory(t)
	s.apply()
	s.settled(2)
	first, before := s.machineNames(), uids(s.Nodes())
	s.checkHealth(clusterv1.UnhealthyNodeCondition{Type: trouble, Status: corev1.ConditionTrue, TimeoutSeconds: ptr.To[int32](1)})
	node := s.Nodes()[0].Name
	s.setNodeCondition(node, corev1.NodeCondition{Type: trouble, Status: corev1.ConditionTrue, Reason: "Story"})
	s.replacedOnce(first, node)

	s.setNodeCondition(node, corev1.NodeCondition{Type: trouble, Status: corev1.ConditionFalse, Reason: "Story"})
	s.settled(2)
	s.Expect(uids(s.Nodes())).To(ConsistOf(before))
	s.Expect(s.replacements(first)()).To(HaveLen(1))
	s.Expect(s.Changes()).To(Equal([]string{createRequest}))
	s.end()
}

// setNodeCondition writes a condition of a Node, as the node problem detector does.
func (s *story) setNodeCondition(name string, condition corev1.NodeCondition) {
	s.Helper()
	condition.LastTransitionTime = metav1.Now()
	s.Eventually(func() error {
		node := &corev1.Node{}
		if err := s.Workload().Get(s.Context(), client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == condition.Type })
		node.Status.Conditions = append(node.Status.Conditions, condition)
		return s.Workload().Status().Update(s.Context(), node)
	}).Should(Succeed())
}

// TestTemplateMismatchHoldsNothingElse adds a MachineDeployment for workers that the portal cannot create. Its Machine waits, and
// a condition reports why. In the meantime the first MachineDeployment scales up, rolls out and scales down.
func TestTemplateMismatchHoldsNothingElse(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	meta := s.template.ObjectMeta
	meta.Name, meta.ResourceVersion, meta.UID = "large", "", ""
	s.Create(newTemplate(meta, "large"))
	large := newDeployment(meta, 1)
	s.Create(large)
	waits := And(HavePrefix("False "+infrav1.TemplateNotHonoredReason), ContainSubstring("large"))
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(waits)

	s.scale(3)
	s.Eventually(func() int { return len(s.healthy()) }).Should(Equal(3), "the healthy MachineDeployment scales up")
	old := s.healthy()
	suite.Change(s.Fixture, s.deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Rollout.After.Time = time.Now() })
	s.Eventually(s.healthy).Should(And(HaveLen(3), Not(ContainElement(BeElementOf(old)))), "the healthy MachineDeployment rolls out")
	s.scale(1)
	s.Eventually(func() int { return len(s.healthy()) }).Should(Equal(1), "the healthy MachineDeployment scales down")
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(waits, "the other one still waits")
	for _, m := range s.Machines() {
		if m.Labels[clusterv1.MachineDeploymentNameLabel] == large.Name {
			s.Expect(m.Status.NodeRef.IsDefined()).To(BeFalse(), "Machine %s holds no node", m.Name)
		}
	}
	s.Expect(s.Box.Client.Delete(s.Context(), large)).To(Succeed())
	s.settled(1)
	s.sameNodes()
	s.end()
}

// healthy returns the Machines of the story's own MachineDeployment that are Ready and not being deleted.
func (s *story) healthy() (names []string) {
	for _, m := range s.Machines() {
		if strings.HasPrefix(m.Name, name+"-") && m.DeletionTimestamp.IsZero() && conditions.IsTrue(&m, clusterv1.MachineReadyCondition) {
			names = append(names, m.Name)
		}
	}
	return names
}
