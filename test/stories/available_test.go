// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const routeUpgrade = "/kubernetes-clusters/*/upgrade"

// TestUpgradeThatReplacesNodesKeepsWorkersAvailable makes the portal replace its nodes one at a time. The first job fails after one of three
// workers, and the test holds the second one. So the upgrade stands still with one new node, which must have its Machine, and the message
// counts it. A MachineHealthCheck sees Machines lose their nodes and replaces none. TestUpgradeKeepsMachinesAvailable of controllers/claims
// checks each step of many upgrades.
func TestUpgradeThatReplacesNodesKeepsWorkersAvailable(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.deployment.Spec.Replicas = ptr.To[int32](3)
	s.apply()
	s.settled(3)
	s.checkHealth(
		clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](10)},
		clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: ptr.To[int32](10)})
	before, machines := uids(s.Nodes()), s.machineNames()
	first, second := s.Namespace+" first", s.Namespace+" second"
	for _, fault := range []emulator.Fault{
		{ID: s.Namespace + " style", UpgradeStyle: emulator.UpgradeReplace},
		{ID: s.Namespace + " half", Job: emulator.JobFailsHalfway, JobNodes: 2, Count: 1}, // the control node and one worker
		{ID: first, Job: emulator.JobStuck, Count: 1},
		{ID: second, Job: emulator.JobStuck, Nth: 2},
	} {
		fault.Method, fault.Path = "POST", routeUpgrade
		s.strike(fault)
	}
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "v1.36.3" })
	upToDate := s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)
	for _, held := range []struct{ fault, progress string }{{first, "0"}, {second, "1"}} {
		if held.fault == second {
			s.allowsRepetition(operation.Upgrade)
		}
		s.Eventually(func() bool { return s.hit(held.fault) }).Should(BeTrue(), "a request to upgrade")
		s.Eventually(upToDate).Should(And(HavePrefix("False Upgrading"), HaveSuffix(". "+held.progress+" of 3 workers run v1.36.3")))
		s.bound(3)
		s.Eventually(s.shielded).Should(Equal(machines), "Machines that the health check must not replace")
		s.Expect(s.Box.Portal.RemoveFault(held.fault)).To(BeTrue())
	}
	s.upgraded("v1.36.3")
	s.settled(3)
	s.Expect(uids(s.Nodes())).NotTo(ContainElement(BeElementOf(before)), "all nodes are new")
	s.Expect(s.machineNames()).To(Equal(machines), "no Machine was replaced")
	s.Expect(s.Changes()).To(Equal([]string{createRequest, "POST upgrade 202", "POST upgrade 202"}))
	s.end()
}

// allowsRepetition waits until the job of an operation has failed after it had worked on nodes. Then the user allows the next one at once.
func (s *story) allowsRepetition(t operation.Type) {
	s.Helper()
	failures := func() operation.Failures {
		cp := s.controlPlane.DeepCopy()
		s.Get(cp)
		record, err := operation.LoadRecord(cp)
		s.Expect(err).NotTo(HaveOccurred())
		return record.Failures[t]
	}
	s.Eventually(failures).Should(HaveField("Count", 1))
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(failures().ID))
	})
}

// hit reports whether the fault has affected a call.
func (s *story) hit(id string) bool {
	return slices.ContainsFunc(s.Box.Portal.Faults(), func(f emulator.FaultState) bool { return f.Fault.ID == id && f.Hits > 0 })
}

// shielded returns the names of the Machines that MachineHealthChecks leave alone.
func (s *story) shielded() (names []string) {
	for _, m := range s.Machines() {
		if metav1.HasAnnotation(m.ObjectMeta, infrav1.ShieldAnnotation) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}
