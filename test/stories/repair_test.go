// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// These stories have a portal that drains nodes itself for a short time, deletes their Node objects, and refuses to change a cluster after
// a failed job until its operator repairs the cluster (profile needs-repair of the emulator). controllers/portalcontrolplane counts the
// requests of the hours until then.

// portalDrains is how long the portal of these stories drains a node. Real ones take a minute.
const portalDrains = 10 * time.Second

// needsRepair gives the account the portal of these stories.
func (s *story) needsRepair() {
	s.Helper()
	s.strike(emulator.Fault{ID: s.Namespace + " scale", Path: scalePath, Drain: portalDrains, Alert: true})
	s.strike(emulator.Fault{ID: s.Namespace + " upgrade", Path: routeUpgrade, Drain: portalDrains, Alert: true, LeaveCordoned: true})
	s.strike(emulator.Fault{
		ID: s.Namespace + " deletion", Method: "DELETE", Path: "/kubernetes-clusters/*", State: emulator.ClusterAlert,
		Code: emulator.CodeOperationNotAllowed, Message: "the cluster is in state Alert and cannot be deleted",
	})
}

func (s *story) state() emulator.ClusterState { return s.PortalClusters()[0].State }

// refused waits until the portal has refused a change twice because of the cluster's state, and checks that the condition says so.
func (s *story) refused(condition string) {
	s.Helper()
	s.Eventually(func() (n int) {
		for _, e := range s.RequestLog() {
			if e.IsChange() && e.Code == emulator.CodeOperationNotAllowed {
				n++
			}
		}
		return n
	}).WithPolling(slowPolling).Should(Equal(2))
	s.Expect(s.Condition(s.controlPlane, condition)()).To(And(
		ContainSubstring(infrav1.RefusedReason), ContainSubstring("state Alert"), ContainSubstring("the portal's operator has to repair")))
}

// repair does what the portal's operator does, and nothing else.
func (s *story) repair() {
	s.Helper()
	s.Expect(s.Box.Portal.Repair(s.PortalClusters()[0].ID)).To(Succeed())
}

// showRequests logs the changes that the provider asked for, and what they did at the portal.
func (s *story) showRequests() {
	for _, e := range s.RequestLog() {
		if e.IsChange() || e.Object == "cluster" || e.Object == "node" && e.To != "added" {
			s.Logf("%s %s", e.Time.UTC().Format(time.TimeOnly), e)
		}
	}
}

// fiveWorkers applies the story with five workers. Two of them are newer, so the portal removes these first. It returns their names in the
// order in which they go.
func (s *story) fiveWorkers() (first, second string) {
	s.Helper()
	s.deployment.Spec.Replicas = ptr.To[int32](3)
	s.controlPlane.Spec.RemovalOrder = "Newest"
	s.apply()
	s.settled(3)
	s.scale(5)
	s.settled(5)
	nodes := s.PortalClusters()[0].Nodes
	return nodes[len(nodes)-1].Name, nodes[len(nodes)-2].Name
}

// TestBlockedScaleDownAtAPortalThatDrains scales down by two of five workers while a PodDisruptionBudget protects a Pod on one of them. The
// portal would drain the node in vain and then need its operator. It is not asked before the provider has drained both nodes.
func TestBlockedScaleDownAtAPortalThatDrains(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	_, second := s.fiveWorkers()
	s.needsRepair()
	pod := s.protect(second, "precious")
	s.scale(3)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.DrainingReason))
	s.survives(pod, 3*portalDrains)
	s.Expect(s.state()).To(Equal(emulator.ClusterRunning))
	s.release("precious")
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(3))
	s.noPodWasKilled(2)
	s.settled(3)
	s.sameNodes()
	s.unmarked()
	s.showRequests()
	s.Expect(emulator.ClusterChanges(s.RequestLog())).NotTo(ContainElement(string(emulator.ClusterAlert)), "the portal never needed a repair")
	s.end()
}

// TestDrainTimeoutAtAPortalThatDrains has the same scale-down, but the user limits drains to ten seconds. So the portal is asked although a
// Pod is left, and its own drain fails at the second node. After the repair, everything goes on by itself.
func TestDrainTimeoutAtAPortalThatDrains(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](10)
	first, second := s.fiveWorkers()
	s.needsRepair()
	pod := s.protect(second, "precious")
	s.scale(3)
	s.Eventually(s.state).Should(Equal(emulator.ClusterAlert))
	s.Expect(s.PortalClusters()[0].Size).To(Equal(5), "the record keeps the size")
	names := []string{}
	for _, n := range s.Nodes() {
		names = append(names, n.Name)
	}
	s.Expect(names).To(And(HaveLen(4), ContainElement(second), Not(ContainElement(first))), "the node before the failing one is gone")
	s.Eventually(s.warnings).Should(ContainElement(ContainSubstring("could not be drained")))
	s.refused(infrav1.WorkersReadyCondition)
	s.survives(pod, time.Second)

	s.release("precious")
	s.repair()
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(3))
	s.noPodWasKilled(2)
	s.settled(3)
	s.sameNodes()
	s.unmarked()
	s.showRequests()
	s.end()
}

// TestBlockedUpgradeAtAPortalThatDrains upgrades a cluster while a PodDisruptionBudget protects a Pod on the second worker. The portal's
// drain fails and leaves the node cordoned. The provider makes the node schedulable. After the repair, the upgrade goes on by itself.
func TestBlockedUpgradeAtAPortalThatDrains(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.needsRepair()
	nodes := s.PortalClusters()[0].Nodes
	last := nodes[len(nodes)-1].Name
	s.protect(last, "precious")
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" })
	s.Eventually(s.state).Should(Equal(emulator.ClusterAlert))
	s.Eventually(s.warnings).Should(ContainElement(And(ContainSubstring("left worker node "+last+" cordoned"), ContainSubstring("schedulable again"))))
	s.Eventually(s.cordoned).Should(BeEmpty())
	versions := map[string]int{}
	for _, n := range s.PortalClusters()[0].Nodes {
		versions[n.Version]++
	}
	s.Expect(versions).To(Equal(map[string]int{"v1.36.3": 2, "v1.35.6": 1}), "control node and first worker, and the rest")
	s.refused(infrav1.VersionUpToDateCondition)

	s.release("precious")
	s.repair()
	s.Eventually(s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)).WithPolling(slowPolling).Should(HavePrefix("True"))
	s.settled(2)
	s.sameNodes()
	s.showRequests()
	s.end()
}

// TestScaleThatNeverEnds has a scale that stays in progress until the portal's operator ends it. Then the provider asks again.
func TestScaleThatNeverEnds(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.needsRepair()
	s.strike(emulator.Fault{Path: scalePath, Job: emulator.JobStuck, Count: 1})
	s.scale(3)
	s.Eventually(s.operation).Should(BeEquivalentTo("scale"))
	s.Consistently(func() int { return s.asked("POST scale") }, 30*time.Second, slowPolling).Should(Equal(1))
	s.repair()
	s.settled(3)
	s.Expect(s.asked("POST scale")).To(Equal(2))
	s.showRequests()
	s.end()
}

// TestDeletionInAlert deletes a Cluster while the portal refuses that, too. The condition says who can help, and after the repair the
// deletion goes on by itself.
func TestDeletionInAlert(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.needsRepair()
	s.strike(emulator.Fault{Path: scalePath, Job: emulator.JobFails, Count: 1})
	s.scale(3)
	s.Eventually(s.state).Should(Equal(emulator.ClusterAlert))
	s.deleteAll()
	s.refused(clusterv1.DeletingCondition)
	s.Expect(slices.ContainsFunc(s.warnings(), func(w string) bool { return strings.Contains(w, "repair") })).To(BeTrue(), "%q", s.warnings())
	s.repair()
	s.gone()
	s.showRequests()
}
