// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestTopologyUpgrades upgrades a Cluster without the annotation for the upgrade concurrency. The portal upgrades all nodes, so the topology
// controller counts the MachineDeployment as upgrading, and does not begin to upgrade it. Then the user sets the annotation, and gives up
// upgrades to a version that the portal does not offer, and one whose job never ends, as docs/upgrade.md says.
func TestTopologyUpgrades(t *testing.T) {
	topologyTale(t, []int32{1}, func(w *topology) {
		delete(w.cluster.Annotations, clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation)
		w.apply()
		w.settle(1)
		nodes := w.uids()
		w.See(theControl(), infrav1.TopologyUpgradableCondition, "False "+infrav1.TopologyNotUpgradableReason,
			"to a number above 1, the number of its MachineDeployments")
		w.upgradeSeenByCore(oldVersion)
		w.Upgraded(oldVersion)
		w.Let(time.Hour)
		Equal(w.World, "version of the MachineDeployment", w.deployment().Spec.Template.Spec.Version, oldestVersion)
		w.change(func(c *clusterv1.Cluster) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, "2")
		})
		w.See(theControl(), infrav1.TopologyUpgradableCondition, "True")
		w.settle(1)

		w.upgrade("v1.35.99")
		w.See(theControl(), infrav1.VersionUpToDateCondition, "False "+infrav1.VersionNotOfferedReason)
		for version, refusal := range map[string]string{oldVersion: "version cannot be decreased", newVersion: "version cannot be changed"} {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"topology":{"version":%q}}}`, version))
			if err := w.client.Patch(context.Background(), w.cluster, patch); err == nil || !strings.Contains(err.Error(), refusal) {
				t.Errorf("%s: %v", version, err)
			}
		}
		w.failed = func() []string { return nil } // while a person gives up, the versions do not fit
		w.giveUp()
		w.settle(1)
		w.Asked("create", "upgrade")

		w.Strike(emulator.Fault{ID: "stuck", Path: upgradeRoute, Job: emulator.JobStuck, Count: 1})
		w.upgrade(newVersion)
		w.See(theControl(), infrav1.OperationInProgressCondition, "True", "job-")
		w.giveUp()
		w.Decide(infrav1.DecisionAbandon)
		w.See(theControl(), infrav1.OperationInProgressCondition, "False")
		w.must(w.Portal.Repair(w.Portal.Clusters()[0].ID))
		w.settle(1)
		w.upgrade(newVersion)
		w.settle(1)
		Equal(w.World, "worker Nodes", w.uids(), nodes)
		w.Asked("create", "upgrade", "upgrade", "upgrade")
	})
}

// upgradeSeenByCore upgrades the Cluster, with the control plane paused until core has seen the new version on the Nodes. If core saw it later
// than the end of the upgrade, the topology controller would not count the MachineDeployment as upgrading.
func (w *topology) upgradeSeenByCore(version string) {
	w.Helper()
	w.Strike(emulator.Fault{ID: "held", Path: upgradeRoute, Job: emulator.JobStuck, Count: 1})
	w.upgrade(version)
	w.Hit("held")
	Edit(w.World, key, theControl(), func(cp *infrav1.PortalControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, clusterv1.PausedAnnotation, "")
	})
	w.See(theControl(), clusterv1.PausedCondition, "True")
	w.Heal("held")
	w.Until("core has seen the version", Patience, func() string { return diff(w.Machines()[0].Status.NodeInfo.KubeletVersion, version) })
	Edit(w.World, key, theControl(), func(cp *infrav1.PortalControlPlane) { delete(cp.Annotations, clusterv1.PausedAnnotation) })
}

// giveUp sets oldVersion again.
func (w *topology) giveUp() {
	w.Helper()
	const unchecked = clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation
	w.change(func(c *clusterv1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, unchecked, "")
		c.Spec.Topology.Version = oldVersion
	})
	w.change(func(c *clusterv1.Cluster) { delete(c.Annotations, unchecked) })
	w.Let(5 * time.Second) // the next command. A pass of the topology controller that has begun still sets the version that it has read
	w.SetVersion(oldVersion)
}

// TestTopologyUpgradeInSteps upgrades over two minor versions with a ClusterClass that lists the versions. After the first step the topology
// controller waits for the MachineDeployments, although it would not upgrade them in this step. A condition says what the user must do.
func TestTopologyUpgradeInSteps(t *testing.T) {
	topologyTale(t, []int32{1}, func(w *topology) {
		w.must(unstructured.SetNestedStringSlice(w.class[0].Object, []string{oldestVersion, oldVersion, newVersion}, "spec", "kubernetesVersions"))
		w.apply()
		w.settle(1)
		nodes := w.uids()
		w.upgrade(newVersion)
		w.See(theControl(), infrav1.TopologyUpgradableCondition, "False "+infrav1.TopologyNotUpgradableReason, "spec.template.spec.version to "+oldVersion)
		w.Upgraded(oldVersion)
		w.Let(time.Hour)
		w.Asked("create", "upgrade")
		md := w.deployment()
		Edit(w.World, client.ObjectKeyFromObject(md), md, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = oldVersion })
		w.settle(1)
		w.Upgraded(newVersion)
		w.See(theControl(), infrav1.TopologyUpgradableCondition, "True")
		Equal(w.World, "worker Nodes", w.uids(), nodes)
		w.Asked("create", "upgrade", "upgrade")
	})
}
