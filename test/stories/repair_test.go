// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// portalDrains is how long the portal of this story drains a node. Real ones take a minute.
const portalDrains = 10 * time.Second

func (s *story) state() emulator.ClusterState { return s.PortalClusters()[0].State }

// TestDrainTimeoutAtAPortalThatDrains has a portal that drains nodes itself for a short time, and refuses to change a cluster after a failed job
// until its operator repairs the cluster. The story scales down by two of five workers while a
// PodDisruptionBudget protects a Pod on the second one. The user limits drains to ten seconds, so the portal is asked although the Pod is left, and
// its own drain fails at the second node. After the repair, everything goes on by itself. alert_test.go of controllers/portalcontrolplane has other
// operations at this portal, and counts the requests of the hours until the repair.
func TestDrainTimeoutAtAPortalThatDrains(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To[int32](10)
	first, second := s.fiveWorkers()
	s.strike(emulator.Fault{Path: scalePath, Drain: portalDrains, Alert: true})
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
	s.Expect(s.Box.Portal.Repair(s.PortalClusters()[0].ID)).To(Succeed())
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(3))
	s.noPodWasKilled(2)
	s.settled(3)
	s.sameNodes()
	s.unmarked()
	s.showRequests()
	s.end()
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
	}).Should(BeNumerically(">=", 2))
	s.Eventually(s.Condition(s.controlPlane, condition)).Should(And(
		ContainSubstring(infrav1.RefusedReason), ContainSubstring("state Alert"), ContainSubstring("the portal's operator has to repair")))
}

// showRequests logs the changes that the provider asked for, and what they did at the portal.
func (s *story) showRequests() {
	for _, e := range s.RequestLog() {
		if e.IsChange() || e.Object == "cluster" || e.Object == "node" && e.To != "added" {
			s.Logf("%s %s", e.Time.UTC().Format(time.TimeOnly), e)
		}
	}
}
