// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestUpgradeNeedsTheAnnotation upgrades a Cluster without the annotation for the upgrade concurrency. The portal upgrades all
// nodes, so the topology controller counts the MachineDeployment as upgrading. With a concurrency of 1 it does not begin to
// upgrade the MachineDeployment. A condition reports this before the upgrade.
func TestUpgradeNeedsTheAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	delete(w.cluster.Annotations, clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation)
	w.apply()
	w.settled(1)
	told := w.conditionOf(w.controlPlane(), infrav1.TopologyUpgradableCondition)
	w.Expect(told()).To(And(
		HavePrefix("False "+infrav1.UpgradeConcurrencyTooLowReason), ContainSubstring("to a number above 1, the number of its MachineDeployments")))

	nodes := w.nodes()
	w.upgradeSeenByCore(newer)
	w.Eventually(w.portalVersion).Should(Equal(newer))
	w.Consistently(w.deploymentVersion, 8*time.Second).Should(Equal(oldest))

	change(w, w.cluster, func(c *clusterv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, "2")
	})
	w.Eventually(told).Should(HavePrefix("True " + infrav1.TopologyUpgradableReason))
	w.settled(1)
	w.Expect(w.deploymentVersion()).To(Equal(newer))
	w.Expect(w.nodes()).To(Equal(nodes))
	w.Expect(w.asked()).To(Equal([]string{createRequest, upgradeRequest}))
	w.neverFailed()
}

// upgradeSeenByCore upgrades the Cluster. It pauses the control plane until core has seen the new version on the Nodes, so the
// control plane reports the end of the upgrade only then. Without the pause, core would usually have seen the version in time.
// If it had not, the topology controller would not count the MachineDeployment as upgrading, and would upgrade it.
func (w *world) upgradeSeenByCore(version string) {
	w.Helper()
	pause := func(paused bool) {
		change(w, w.controlPlane(), func(cp *infrav1.PortalControlPlane) {
			delete(cp.Annotations, clusterv1.PausedAnnotation)
			if paused {
				metav1.SetMetaDataAnnotation(&cp.ObjectMeta, clusterv1.PausedAnnotation, "")
			}
		})
	}
	w.upgrade(version)
	w.Eventually(w.asked).Should(ContainElement(upgradeRequest))
	pause(true)
	w.Eventually(func() (versions []string) {
		for _, m := range w.machines() {
			versions = append(versions, m.Status.NodeInfo.KubeletVersion)
		}
		return versions
	}).Should(HaveEach(version))
	pause(false)
}

// portalVersion returns the version of the portal cluster that the control plane reports.
func (w *world) portalVersion() string {
	controlPlane := w.controlPlane()
	w.Expect(box.Client.Get(w.Context(), client.ObjectKeyFromObject(controlPlane), controlPlane)).To(Succeed())
	return controlPlane.Status.Version
}

// deploymentVersion returns the version in the template of the only MachineDeployment.
func (w *world) deploymentVersion() string {
	deployments := &clusterv1.MachineDeploymentList{}
	w.list(deployments)
	w.Expect(deployments.Items).To(HaveLen(1))
	return deployments.Items[0].Spec.Template.Spec.Version
}

// TestUpgradeInSteps upgrades over two minor versions with a ClusterClass that lists the versions. After the first step the nodes
// have the second version, so the topology controller takes the MachineDeployments for upgrading and waits for them, although
// it would not upgrade them in this step. A condition reports what the user must do.
func TestUpgradeInSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.class.Spec.KubernetesVersions = []string{oldest, newer, newest}
	w.apply()
	w.settled(1)
	nodes := w.nodes()
	w.upgrade(newest)
	told := w.conditionOf(w.controlPlane(), infrav1.TopologyUpgradableCondition)
	w.Eventually(told).Should(And(
		HavePrefix("False "+infrav1.MachineDeploymentsBehindReason), ContainSubstring("spec.template.spec.version to "+newer)))
	w.Eventually(w.portalVersion).Should(Equal(newer))
	w.Consistently(w.portalVersion, 5*time.Second).Should(Equal(newer))

	deployments := &clusterv1.MachineDeploymentList{}
	w.list(deployments)
	change(w, &deployments.Items[0], func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = newer })
	w.settled(1)
	w.Expect(w.portalVersion()).To(Equal(newest))
	w.Expect(w.nodes()).To(Equal(nodes))
	w.Expect(w.asked()).To(Equal([]string{createRequest, upgradeRequest, upgradeRequest}))
	w.Expect(told()).To(HavePrefix("True"))
	w.neverFailed()
}
