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

// Stories that end the manager do not call t.Parallel: other stories share the manager.

const (
	routeClusters = "/kubernetes-clusters"
	scalePath     = "/kubernetes-clusters/*/scale"
)

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

// killManager kills the manager and starts another one.
func (s *story) killManager() {
	s.Helper()
	s.Box.KillManager()
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
// id that the user sets. Then the story kills the manager inside a scale, and while the job of another one runs.
func TestCrashInsideCreate(t *testing.T) {
	s := newStory(t)
	s.strike(emulator.Fault{ID: s.Namespace + " create", Method: "POST", Path: routeClusters, After: true, Delay: 30 * time.Second, Count: 1})
	s.apply()
	s.Eventually(s.PortalClusters).Should(HaveLen(1))
	s.killManager()

	s.Eventually(s.Condition(s.controlPlane, infrav1.AvailableCondition)).Should(And(
		HavePrefix("False "+infrav1.OutcomeUnknownReason),
		ContainSubstring("cannot know whether the portal created cluster %q", s.PortalClusters()[0].Name),
		ContainSubstring("set spec.clusterID to its id"),
		ContainSubstring("kubectl annotate portalcontrolplane"),
	))
	s.Expect(s.controlPlane.Annotations).NotTo(HaveKey(clusterctlv1.BlockMoveAnnotation), "a held unknown outcome does not block a move")

	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) {
		cp.Spec.ClusterID, cp.Spec.DeletionPolicy = s.PortalClusters()[0].ID, infrav1.DeletionPolicyDelete
	})
	s.settled(2)
	s.crashInsideScales()
	s.Expect(s.asked("POST kubernetes-clusters")).To(Equal(1))
	s.end()
}

// crashInsideScales kills the manager before it learns of a job, and after it has stored one. The portal gets one request for each scale. In the
// first case, the provider treats the scale as running until the node count shows that it is done. In the second, it follows the job.
func (s *story) crashInsideScales() {
	s.Helper()
	unanswered, held := s.Namespace+" unanswered", s.Namespace+" held"
	s.strike(emulator.Fault{ID: unanswered, Method: "POST", Path: scalePath, After: true, Delay: 30 * time.Second, Count: 1})
	s.scale(3)
	s.Eventually(func() int { return s.PortalClusters()[0].Size }).Should(Equal(3))
	s.killManager()
	s.settled(3)

	s.strike(emulator.Fault{ID: held, Method: "POST", Path: scalePath, Job: emulator.JobStuck})
	s.scale(4)
	s.Eventually(s.operation).Should(Equal(operation.Scale))
	s.killManager()
	s.Expect(s.Box.Portal.RemoveFault(held)).To(BeTrue())
	s.settled(4)
	s.Expect(s.resizes()).To(Equal([][2]int{{2, 3}, {3, 4}}))
}
