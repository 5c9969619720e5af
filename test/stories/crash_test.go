// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// Stories that end the manager use newStoryAlone.

const routeClusters = "/kubernetes-clusters"

// strike arms a fault for the story's account.
func (s *story) strike(f emulator.Fault) {
	s.Helper()
	f.Account = s.User.Account
	if f.ID == "" {
		f.ID = s.Namespace
	}
	s.Expect(s.Box.Portal.Inject(f)).To(Succeed())
	s.Cleanup(func() { s.Box.Portal.RemoveFault(f.ID) })
}

// restart starts the manager again after a stop or kill.
func (s *story) restart() {
	s.Helper()
	s.Expect(s.Box.StartManager(s.Context())).To(Succeed())
}

// asked returns the number of changes with this prefix, such as "POST kubernetes-clusters".
func (s *story) asked(prefix string) (n int) {
	for _, change := range s.Changes() {
		if strings.HasPrefix(change, prefix) {
			n++
		}
	}
	return n
}

// TestCrashInsideCreate kills the manager after the portal has created the cluster and before it answers. The next manager must
// neither create a second cluster nor forget the first. It stops, reports what the user has to check, and continues with the
// id that the user sets.
func TestCrashInsideCreate(t *testing.T) {
	s := newStoryAlone(t)
	s.strike(emulator.Fault{Method: "POST", Path: routeClusters, After: true, Delay: 30 * time.Second})
	s.apply()
	s.Eventually(s.PortalClusters).Should(HaveLen(1))
	s.Box.KillManager()
	s.restart()

	s.Eventually(s.Condition(s.controlPlane, infrav1.AvailableCondition)).Should(And(
		HavePrefix("False "+infrav1.OutcomeUnknownReason),
		ContainSubstring("cannot know whether the portal created cluster %q", s.PortalClusters()[0].Name),
		ContainSubstring("set spec.clusterID to its id"),
		ContainSubstring("kubectl annotate portalcontrolplane"),
	))
	s.Expect(s.controlPlane.Annotations).NotTo(HaveKey(clusterctlv1.BlockMoveAnnotation), "a held unknown outcome does not block a move")
	s.Consistently(func() int { return s.asked("POST kubernetes-clusters") }, 10*time.Second).Should(Equal(1))

	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) {
		cp.Spec.ClusterID, cp.Spec.DeletionPolicy = s.PortalClusters()[0].ID, infrav1.DeletionPolicyDelete
	})
	s.settled(2)
	s.Expect(s.asked("POST kubernetes-clusters")).To(Equal(1))
	s.end()
}

// TestCreateCutOff cuts the connection before the portal does anything. The provider cannot know that, so it stops here too.
// The user, who has checked the portal, allows one retry.
func TestCreateCutOff(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.strike(emulator.Fault{Method: "POST", Path: routeClusters, Cut: true, Count: 1})
	s.apply()
	s.Eventually(s.Condition(s.controlPlane, infrav1.AvailableCondition)).Should(HavePrefix("False " + infrav1.OutcomeUnknownReason))
	s.Consistently(func() int { return s.asked("POST kubernetes-clusters") }, 10*time.Second).Should(Equal(1))
	s.Expect(s.PortalClusters()).To(BeEmpty())

	s.Decide(s.controlPlane, infrav1.DecisionRetry)
	s.settled(2)
	s.Expect(s.PortalClusters()).To(HaveLen(1))
	s.Expect(s.controlPlane.Annotations).NotTo(HaveKey(infrav1.DecisionAnnotation), "the annotation allows one retry only")
	s.end()
}

// TestCrashWhileTheJobRuns kills the manager after it has stored the job. The next manager waits for the same job.
func TestCrashWhileTheJobRuns(t *testing.T) {
	s := newStoryAlone(t)
	s.apply()
	s.Eventually(s.operation).Should(Equal(operation.Create))
	s.Box.KillManager()
	s.restart()
	s.settled(2)
	s.Expect(s.Changes()).To(Equal([]string{"POST kubernetes-clusters 202"}))

	// The same with a scale whose answer is lost. The provider treats the scale as running until the node count shows that it is done.
	s.strike(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters/*/scale", After: true, Delay: 30 * time.Second, Count: 1})
	s.scale(3)
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(3))
	s.Box.KillManager()
	s.restart()
	s.settled(3)
	s.Expect(s.PortalClusters()[0].Size).To(Equal(3))
	s.end()
}

// TestStopInsideCreate ends the manager with SIGTERM during a call. The manager finishes the call and stores its outcome, so
// the next manager knows the outcome.
func TestStopInsideCreate(t *testing.T) {
	s := newStoryAlone(t)
	s.strike(emulator.Fault{Method: "POST", Path: routeClusters, After: true, Delay: 5 * time.Second, Count: 1})
	s.apply()
	s.Eventually(s.PortalClusters).Should(HaveLen(1))
	s.Box.StopManager()
	s.Expect(s.operation()).To(Equal(operation.Create), "the manager stores the job before it ends")
	s.restart()
	s.settled(2)
	s.Expect(s.asked("POST kubernetes-clusters")).To(Equal(1))
	s.end()
}
