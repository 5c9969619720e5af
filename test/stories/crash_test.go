// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestCrashInsideCreate kills the manager after the portal has created the cluster and before it answers. The next manager neither creates a
// second cluster nor forgets the first. It continues with the id that the user sets. The story does not call t.Parallel, because all stories share
// the manager.
func TestCrashInsideCreate(t *testing.T) {
	s := newStory(t)
	s.Expect(s.Box.Portal.Inject(emulator.Fault{
		Account: s.User.Account, Method: "POST", Path: "/kubernetes-clusters", After: true, Delay: 30 * time.Second, Count: 1,
	})).To(Succeed())
	s.apply()
	s.Eventually(s.PortalClusters).Should(HaveLen(1))
	s.Box.KillManager()
	s.Expect(s.Box.StartManager(s.Context())).To(Succeed())
	s.Eventually(s.Condition(s.ControlPlane, infrav1.AvailableCondition)).Should(And(
		HavePrefix("False "+infrav1.OutcomeUnknownReason), ContainSubstring("set spec.clusterID to its id")))
	suite.Change(s.Fixture, s.ControlPlane, func(cp *infrav1.PortalControlPlane) {
		cp.Spec.ClusterID, cp.Spec.DeletionPolicy = s.PortalClusters()[0].ID, infrav1.DeletionPolicyDelete
	})
	s.settled(2)
	s.end()
	s.Expect(s.Changes()).To(HaveExactElements(HavePrefix("POST kubernetes-clusters"), deleteRequest))
}
