// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const routeUpgrade = "/kubernetes-clusters/*/upgrade"

// upgraded watches an upgrade whose answer was lost. Machines get shielded, and VersionUpToDate is not True while a worker runs the
// previous version.
func (s *story) upgraded(version string) {
	s.Helper()
	upToDate := s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)
	s.Eventually(upToDate).ShouldNot(HavePrefix("True"))
	s.Eventually(func() bool {
		return slices.ContainsFunc(s.Machines(), func(m clusterv1.Machine) bool { return metav1.HasAnnotation(m.ObjectMeta, infrav1.ShieldAnnotation) })
	}).Should(BeTrue())
	for deadline := time.Now().Add(suite.Patience); ; time.Sleep(200 * time.Millisecond) {
		is := upToDate()
		// The test reads versions at the portal, because the API server of the workload cluster is away for moments.
		behind := slices.ContainsFunc(s.PortalClusters()[0].Nodes, func(n emulator.Node) bool { return n.Version != version })
		if strings.HasPrefix(is, "True") {
			s.Expect(behind).To(BeFalse(), "a worker runs the previous version, and the condition is %q", is)
			break
		}
		s.Expect(time.Now().Before(deadline)).To(BeTrue(), "the condition is still %q", is)
	}
	s.Expect(s.asked("POST upgrade 202")+s.asked("POST upgrade 0")).To(BeNumerically("<=", 1), "%v", s.Changes())
}

// TestUpgradeWhoseAnswerIsLost cuts the connection after the portal has started the upgrade. The upgrade takes a minute, so the provider
// is connected again before it ends, and shields the Machines.
func TestUpgradeWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.strike(emulator.Fault{Method: "POST", Path: routeUpgrade, Cut: true, After: true, JobDelay: time.Minute, Count: 1})
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" })
	s.upgraded("v1.36.3")
	s.end()
}

// TestCrashInsideUpgrade kills the manager after the portal has started the upgrade and before it answers. The next manager takes half
// a minute to connect to the workload cluster, so the upgrade of this test takes two minutes.
func TestCrashInsideUpgrade(t *testing.T) {
	s := newStoryAlone(t)
	s.apply()
	s.settled(2)
	s.strike(emulator.Fault{Method: "POST", Path: routeUpgrade, Delay: 30 * time.Second, After: true, JobDelay: 2 * time.Minute, Count: 1})
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" })
	s.Eventually(func() emulator.ClusterState { return s.PortalClusters()[0].State }).Should(Equal(emulator.ClusterUpgrading))
	s.Box.KillManager()
	s.restart()
	s.upgraded("v1.36.3")
	s.end()
}

// TestUpgradeWhileThePortalIsAway upgrades a cluster twice. The portal is away for ten seconds during each upgrade: the first time it lets
// polls of the job wait, the second time it cuts connections. It gets one request for each upgrade. A second one would replace every
// worker again, with the Pods on it.
func TestUpgradeWhileThePortalIsAway(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.controlPlane.Spec.Version, s.deployment.Spec.Template.Spec.Version = "v1.34.9", "v1.34.9"
	s.apply()
	s.settled(2)
	for i, outage := range []emulator.Fault{{Delay: 10 * time.Second}, {Cut: true, For: 10 * time.Second}} {
		version := []string{"v1.35.6", "v1.36.3"}[i]
		held, away := fmt.Sprint(s.Namespace, "-held-", i), fmt.Sprint(s.Namespace, "-away-", i)
		s.strike(emulator.Fault{ID: held, Method: "POST", Path: routeUpgrade, Job: emulator.JobStuck, Count: 1})
		suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = version })
		s.Eventually(s.operation).Should(BeEquivalentTo("upgrade"))
		outage.ID, outage.Method, outage.Path = away, "GET", "/jobs/*"
		s.strike(outage)
		s.Eventually(func() bool { return s.hit(away) }).Should(BeTrue(), "a poll of the job while the portal is away")
		s.Box.Portal.RemoveFault(held) // the portal upgrades the cluster in the next seconds

		s.Eventually(func() string { return s.live().Status.Version }).Should(Equal(version))
		s.Consistently(func() int { return s.asked("POST upgrade") }, 10*time.Second).Should(Equal(i+1), "%v", s.Changes())
		s.Eventually(s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)).Should(HavePrefix("True"))
		s.Expect(s.PortalClusters()[0].Version).To(Equal(version))
		s.Box.Portal.RemoveFault(away)
	}
	s.end()
}

// hit reports whether the fault has affected a call.
func (s *story) hit(id string) bool {
	return slices.ContainsFunc(s.Box.Portal.Faults(), func(f emulator.FaultState) bool { return f.Fault.ID == id && f.Hits > 0 })
}

// TestAbandonedScale uses the annotation to abandon a scale that never ends. The provider waits until the portal is no longer busy, and
// decides again.
func TestAbandonedScale(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	s.strike(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters/*/scale", Job: emulator.JobStuck, Count: 1})
	s.scale(3)
	s.Eventually(s.operation).Should(BeEquivalentTo("scale"))
	s.Decide(s.controlPlane, infrav1.DecisionAbandon)
	s.Eventually(s.operation).Should(BeEmpty())
	s.Expect(s.controlPlane.Annotations).NotTo(HaveKey(infrav1.DecisionAnnotation))
	s.Eventually(s.events).Should(ContainElement(ContainSubstring("Abandoned the scale from 2 to 3 workers")))
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.PortalBusyReason))
	s.Box.Portal.RemoveFault(s.Namespace)
	s.settled(3)
	s.end()
}
