// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestUpgradeNeedsTheAnnotation upgrades a Cluster without the annotation for the upgrade concurrency. The portal upgrades all
// nodes, so the topology controller counts the MachineDeployment as upgrading. With a concurrency of 1 it does not begin to
// upgrade the MachineDeployment. A condition reports this before the upgrade.
func TestUpgradeNeedsTheAnnotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	delete(f.cluster.Annotations, clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation)
	f.apply()
	f.settled(1)
	condition := f.Condition(f.controlPlane(), infrav1.TopologyUpgradableCondition)
	f.Expect(condition()).To(And(
		HavePrefix("False "+infrav1.TopologyNotUpgradableReason), ContainSubstring("to a number above 1, the number of its MachineDeployments")))

	nodes := f.nodes()
	f.upgradeSeenByCore(newer)
	f.Eventually(f.portalVersion).Should(Equal(newer))
	f.Consistently(f.deploymentVersion, 8*time.Second).Should(Equal(oldest))

	suite.Change(f.Fixture, f.cluster, func(c *clusterv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, "2")
	})
	f.Eventually(condition).Should(HavePrefix("True " + infrav1.ReadyReason))
	f.settled(1)
	f.Expect(f.deploymentVersion()).To(Equal(newer))
	f.Expect(f.nodes()).To(Equal(nodes))
	f.Expect(f.Changes()).To(Equal([]string{createRequest, upgradeRequest}))
	f.neverFailed()
}

// upgradeSeenByCore upgrades the Cluster. It pauses the control plane until core has seen the new version on the Nodes, so the
// control plane reports the end of the upgrade only then. The portal begins the upgrade after the pause. Without the pause, core would usually
// have seen the version in time. If it had not, the topology controller would not count the MachineDeployment as upgrading, and would upgrade it.
func (f *fixture) upgradeSeenByCore(version string) {
	f.Helper()
	pause := func(paused bool) {
		suite.Change(f.Fixture, f.controlPlane(), func(cp *infrav1.PortalControlPlane) {
			delete(cp.Annotations, clusterv1.PausedAnnotation)
			if paused {
				metav1.SetMetaDataAnnotation(&cp.ObjectMeta, clusterv1.PausedAnnotation, "")
			}
		})
	}
	held := emulator.Fault{
		ID: "held for " + f.Namespace, Account: f.User.Account, Method: "POST", Path: "/kubernetes-clusters/*/upgrade", Job: emulator.JobStuck, Count: 1,
	}
	f.Expect(box.Portal.Inject(held)).To(Succeed())
	f.upgrade(version)
	f.Eventually(f.Changes).Should(ContainElement(upgradeRequest))
	pause(true)
	f.Eventually(f.Condition(f.controlPlane(), clusterv1.PausedCondition)).Should(HavePrefix("True"))
	box.Portal.RemoveFault(held.ID)
	f.Eventually(func() (versions []string) {
		for _, m := range f.Machines() {
			versions = append(versions, m.Status.NodeInfo.KubeletVersion)
		}
		return versions
	}).Should(HaveEach(version))
	pause(false)
}

// portalVersion returns the version of the portal cluster that the control plane reports.
func (f *fixture) portalVersion() string {
	controlPlane := f.controlPlane()
	f.Get(controlPlane)
	return controlPlane.Status.Version
}

// deploymentVersion returns the version in the template of the only MachineDeployment.
func (f *fixture) deploymentVersion() string {
	deployments := &clusterv1.MachineDeploymentList{}
	f.List(deployments)
	f.Expect(deployments.Items).To(HaveLen(1))
	return deployments.Items[0].Spec.Template.Spec.Version
}

// TestUpgradeInSteps upgrades over two minor versions with a ClusterClass that lists the versions. After the first step the nodes
// have the second version, so the topology controller takes the MachineDeployments for upgrading and waits for them, although
// it would not upgrade them in this step. A condition reports what the user must do.
func TestUpgradeInSteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.class.Spec.KubernetesVersions = []string{oldest, newer, newest}
	f.apply()
	f.settled(1)
	nodes := f.nodes()
	f.upgrade(newest)
	condition := f.Condition(f.controlPlane(), infrav1.TopologyUpgradableCondition)
	f.Eventually(condition).Should(And(
		HavePrefix("False "+infrav1.TopologyNotUpgradableReason), ContainSubstring("spec.template.spec.version to "+newer)))
	f.Eventually(f.portalVersion).Should(Equal(newer))
	f.Consistently(f.portalVersion, 5*time.Second).Should(Equal(newer))

	deployments := &clusterv1.MachineDeploymentList{}
	f.List(deployments)
	suite.Change(f.Fixture, &deployments.Items[0], func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = newer })
	f.settled(1)
	f.Expect(f.portalVersion()).To(Equal(newest))
	f.Expect(f.nodes()).To(Equal(nodes))
	f.Expect(f.Changes()).To(Equal([]string{createRequest, upgradeRequest, upgradeRequest}))
	f.Expect(condition()).To(HavePrefix("True"))
	f.neverFailed()
}

// TestGiveUpUpgrade gives up an upgrade as upgrade.md says, first to a version that the portal does not offer, and then one whose job never ends.
// Core itself refuses to lower the version of a Cluster. Afterwards the Cluster can be upgraded as usual.
func TestGiveUpUpgrade(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 1)
	f.apply()
	f.settled(1)
	nodes := f.nodes()

	f.upgrade("v1.34.99")
	f.Eventually(f.Condition(f.controlPlane(), infrav1.VersionUpToDateCondition)).Should(HavePrefix("False " + infrav1.VersionNotOfferedReason))
	for version, refusal := range map[string]string{oldest: "version cannot be decreased", newer: "version cannot be changed"} {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"topology":{"version":%q}}}`, version))
		f.Expect(box.Client.Patch(f.Context(), f.cluster, patch)).To(MatchError(ContainSubstring(refusal)), version)
	}
	f.giveUp()
	f.settled(1)
	f.Expect(f.Changes()).To(Equal([]string{createRequest}))

	id := f.PortalClusters()[0].ID
	f.Expect(box.Portal.Inject(emulator.Fault{Path: "/kubernetes-clusters/" + id + "/upgrade", Job: emulator.JobStuck, Count: 1})).To(Succeed())
	f.upgrade(newer)
	upgrading := f.Condition(f.controlPlane(), infrav1.OperationInProgressCondition)
	f.Eventually(upgrading).Should(And(HavePrefix("True"), ContainSubstring("job-")))
	f.giveUp()
	f.Decide(f.controlPlane(), infrav1.DecisionAbandon)
	f.Eventually(upgrading).Should(HavePrefix("False"))
	f.Expect(box.Portal.Repair(id)).To(Succeed())
	f.settled(1)
	f.Expect(f.portalVersion()).To(Equal(oldest))
	f.Expect(f.Changes()).To(Equal([]string{createRequest, upgradeRequest}))

	f.upgrade(newer)
	f.Eventually(f.portalVersion).Should(Equal(newer))
	f.settled(1)
	f.Expect(f.nodes()).To(Equal(nodes))
	f.Expect(f.Changes()).To(Equal([]string{createRequest, upgradeRequest, upgradeRequest}))
}

// giveUp sets the oldest version again. Between the two steps, the topology controller may report that the versions do not fit.
func (f *fixture) giveUp() {
	f.Helper()
	const unchecked = clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation
	suite.Change(f.Fixture, f.cluster, func(c *clusterv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, unchecked, "")
		c.Spec.Topology.Version = oldest
	})
	suite.Change(f.Fixture, f.cluster, func(c *clusterv1.Cluster) { delete(c.Annotations, unchecked) })
	suite.Change(f.Fixture, f.controlPlane(), func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = oldest })
}
