// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestUnhealthyNodes has a MachineHealthCheck. A node gets a condition of trouble, a kubelet stops, and a Node object is deleted by mistake. No Machine
// is replaced, because the new one would get the same node. The portal is asked only for the node whose Node object is missing.
func TestUnhealthyNodes(t *testing.T) {
	const trouble corev1.NodeConditionType = "DiskTrouble"
	tale(t, func(w *World) {
		w.CreateCluster(2)
		w.Settle(2)
		before, machines := w.uids(), w.machineNames()
		w.checkHealth(600, unhealthy(trouble, corev1.ConditionTrue), unhealthy(corev1.NodeReady, corev1.ConditionUnknown))
		first, second := w.Workers()[0], w.Workers()[1]
		w.setNodeCondition(first.Name, trouble, corev1.ConditionTrue)
		w.setNodeCondition(second.Name, corev1.NodeReady, corev1.ConditionUnknown)
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.NodesNotReadyReason, second.Name, "ask its support")
		w.Let(3 * time.Hour)
		Equal(w, "Machines", w.machineNames(), machines)
		w.setNodeCondition(first.Name, trouble, corev1.ConditionFalse)
		w.setNodeCondition(second.Name, corev1.NodeReady, corev1.ConditionTrue)
		w.Settle(2)
		Equal(w, "worker Nodes", w.uids(), before)
		w.Asked("create")

		w.must(w.workloads.get(w.Portal.Clusters()[0].ID).client.Delete(context.Background(), first))
		w.See(theControl(), infrav1.WorkersReadyCondition, "False")
		w.Let(time.Minute)
		w.Asked("create")
		w.Settle(2) // the provider has asked for the size that there should be, and the portal has repaired its cluster
		w.Asked("create", "scale")
		Equal(w, "Machines", w.machineNames(), machines)
		w.End()
	})
}

// TestUpgradeThatReplacesNodes has a portal that replaces its nodes one by one. The first job fails after one of three workers, and the second one
// stands still with it. The message counts, each worker has its Machine, and a MachineHealthCheck replaces none.
func TestUpgradeThatReplacesNodes(t *testing.T) {
	tale(t, func(w *World) {
		w.CreateCluster(3)
		w.Settle(3)
		w.checkHealth(600, unhealthy(corev1.NodeReady, corev1.ConditionUnknown), unhealthy(corev1.NodeReady, corev1.ConditionFalse))
		before, machines := w.uids(), w.machineNames()
		w.Strike(
			emulator.Fault{ID: "style", Path: upgradeRoute, UpgradeStyle: emulator.UpgradeReplace},
			emulator.Fault{ID: "half", Path: upgradeRoute, Job: emulator.JobFailsHalfway, JobNodes: 2, Count: 1}, // the control node and one worker
			emulator.Fault{ID: "first", Path: upgradeRoute, Job: emulator.JobStuck, Count: 1},
			emulator.Fault{ID: "second", Path: upgradeRoute, Job: emulator.JobStuck, Nth: 2},
		)
		w.SetVersion(newVersion)
		for i, held := range []string{"first", "second"} {
			if held == "second" {
				w.allowRepetition(operation.Upgrade)
			}
			w.Hit(held)
			w.See(theControl(), infrav1.VersionUpToDateCondition, "False Upgrading", fmt.Sprintf(". %d of 3 workers run %s", i, newVersion))
			w.Until("each worker has its Machine", Patience, func() string { return diff(fmt.Sprint(len(w.bound(name)), len(w.Workers())), "3 3") })
			w.Let(time.Hour)
			w.Heal(held)
		}
		w.Upgraded(newVersion)
		w.Settle(3)
		if slices.ContainsFunc(w.uids(), func(uid string) bool { return slices.Contains(before, uid) }) {
			t.Error("a node was not replaced")
		}
		Equal(w, "Machines", w.machineNames(), machines)
		w.Asked("create", "upgrade", "upgrade")
		w.End()
	})
}

// allowRepetition waits until a job has failed after it had worked on nodes. Then the user allows the next one at once.
func (w *World) allowRepetition(of operation.Type) {
	w.Helper()
	failures := func() operation.Failures {
		record, err := operation.LoadRecord(read(w, theControl()))
		w.must(err)
		return record.Failures[of]
	}
	w.Until("the job has failed", Patience, func() string { return diff(fmt.Sprint(failures().Count), "1") })
	Edit(w, key, theControl(), func(cp *infrav1.PortalControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(failures().ID))
	})
}
