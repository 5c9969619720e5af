// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// newestFirst returns a manifest whose portal is known to remove the newest workers first, as core does.
func newestFirst(workers int32) *Manifest {
	m := NewManifest(workers)
	m.ControlPlane.Spec.RemovalOrder = "Newest"
	m.Workers.Spec.Deletion.Order = clusterv1.NewestMachineSetDeletionOrder
	return m
}

// TestBlockedDrain lowers the replicas while the Cluster is paused and no Pod can be evicted. The portal is asked for nothing until the user has
// resumed the Cluster and the Pods may go. The condition names one of them, and each event of the drain comes once.
func TestBlockedDrain(t *testing.T) {
	tale(t, func(w *World) {
		w.Apply(newestFirst(2))
		w.Settle(2)
		w.Scale(3)
		w.Settle(3)
		w.RollApp()
		newest := w.newestMachine().Name
		w.Pause()
		w.Scale(2)
		w.Spare(0)
		w.Let(5 * time.Minute)
		w.Asked("create", "scale") // nothing while it is paused
		w.Resume()
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.DrainingReason, newest, "default/web-")
		w.Let(30 * time.Minute)
		w.Asked("create", "scale")
		w.Spare(2)
		w.Settle(2)
		w.KilledNoPod(1)
		w.Asked("create", "scale", "scale")
		var reasons []string
		for _, e := range w.events {
			if strings.Contains(e.Reason, "Drain") && strings.Contains(e.Object, "PortalControlPlane") {
				reasons = append(reasons, e.Reason)
			}
		}
		Equal(w, "events of the drain", reasons, []string{infrav1.EventNodeDrainStarted, infrav1.EventNodeDrainBlocked, infrav1.EventNodeDrainEnded})
		w.End()
	})
}

// TestDrainRulesOfTheNode has two MachineDeployments. The one that goes down limits drains to ten seconds. But the portal will remove a node of
// the other one, which has no limit, so the Pods on it stay until their budget lets them go.
func TestDrainRulesOfTheNode(t *testing.T) {
	tale(t, func(w *World) {
		w.Apply(newestFirst(2))
		w.Settle(2)
		w.Create(NewWorkers("more", 1))
		w.Settle(3)
		w.RollApp()
		Edit(w, key, theWorkers(), func(md *clusterv1.MachineDeployment) {
			md.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(10))
		})
		w.Until("two Machines have the limit", Patience, func() string {
			limited := slices.DeleteFunc(w.Machines(), func(m *clusterv1.Machine) bool { return m.Spec.Deletion.NodeDrainTimeoutSeconds == nil })
			return diff(fmt.Sprint(len(limited)), "2")
		})
		w.Spare(0)
		w.Scale(1)
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.DrainingReason, "default/web-")
		w.Let(10 * time.Minute)
		w.Asked("create", "scale")
		w.Spare(2)
		w.Settle(2)
		w.KilledNoPod(1)
		w.End()
	})
}

// TestFailedScaleDown has the portal refuse a scale-down, fail it, finish half of it or lose the answer, one after the other. The provider asks
// again. What it drained for the first request is still empty when the portal removes it, and nothing else is drained.
func TestFailedScaleDown(t *testing.T) {
	tale(t, func(w *World) {
		w.Apply(newestFirst(2))
		w.Settle(2)
		kept := w.uids()
		for i, faults := range [][]emulator.Fault{
			{{ID: "not allowed", Code: emulator.CodeOperationNotAllowed, Count: 1}, {ID: "quota", Code: emulator.CodeQuotaExceeded, Nth: 2, Count: 1}},
			{{ID: "job fails", Job: emulator.JobFails, JobMessage: "an image is being copied", Count: 1}},
			{{ID: "job half finished", Job: emulator.JobFailsHalfway, JobNodes: 1, Count: 1}},
			{{ID: "job forgotten", Job: emulator.JobForgotten, JobDelay: 20 * time.Second, Count: 1}},
			{{ID: "forgotten and not done", Job: emulator.JobForgotten, Count: 1}, {ID: "fail", Job: emulator.JobFails, Count: 1}},
			{{ID: "answer lost", Cut: true, After: true, JobDelay: 20 * time.Second, Count: 1}},
			{{ID: "lost and not done", Cut: true, After: true, Count: 1}, {ID: "fail", Job: emulator.JobFails, Count: 1}},
		} {
			w.Scale(4)
			w.Settle(4)
			w.RollApp()
			for _, f := range faults {
				f.Path, f.Scale = scaleRoute, emulator.ScaleDown
				w.Strike(f)
			}
			w.Scale(2)
			w.Hit(faults[0].ID)
			w.Settle(2)
			Equal(w, faults[0].ID+": worker Nodes", w.uids(), kept)
			w.KilledNoPod(2 * (i + 1))
			w.Portal.ClearFaults()
		}
		w.End()
	})
}

// TestRefusedScaleDown has the portal refuse to remove workers, or fail to. The drained nodes stay drained, and a further scale-down drains one
// more. The user then raises the replicas one by one, and each time one node becomes schedulable again.
func TestRefusedScaleDown(t *testing.T) {
	tale(t, func(w *World) {
		w.Apply(newestFirst(3))
		w.Spare(4)
		w.Settle(3)
		before := w.uids()
		for _, refused := range []struct {
			fault  emulator.Fault
			reason string
		}{
			{emulator.Fault{ID: "at once", Status: 422, Code: "INVALID_PARAMETER", Message: "not now"}, infrav1.RefusedReason},
			{emulator.Fault{ID: "by its jobs", Job: emulator.JobFails}, infrav1.JobFailedReason},
		} {
			refused.fault.Path = scaleRoute
			w.Strike(refused.fault)
			cordoned := func(n int) {
				w.Helper()
				w.Until(fmt.Sprint(n, " nodes are drained"), Patience, func() string { return diff(fmt.Sprint(len(w.cordoned())), fmt.Sprint(n)) })
			}
			for _, replicas := range []int{2, 1} {
				w.Scale(int32(replicas))
				w.Until("the Machine is gone", Patience, func() string { return diff(fmt.Sprint(len(w.Machines())), fmt.Sprint(replicas)) })
				w.See(theControl(), infrav1.WorkersReadyCondition, "False "+refused.reason, "3 to 2 workers")
				cordoned(3 - replicas)
			}
			w.Let(10 * time.Minute)
			cordoned(2)
			w.Scale(2)
			cordoned(1)
			w.Scale(3)
			w.Settle(3)
			Equal(w, "worker Nodes", w.uids(), before)
			w.Portal.ClearFaults()
		}
		w.KilledNoPod(0)
		w.End()
	})
}

// TestPortalThatDrains has a portal that drains each node for ten seconds, and refuses to change a cluster after a failed job until its operator
// repairs it. The user limits drains, so the portal is asked although Pods are left, and fails. After the repair, all goes on by itself.
func TestPortalThatDrains(t *testing.T) {
	tale(t, func(w *World) {
		m := newestFirst(3)
		m.Workers.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(10))
		w.Apply(m)
		w.Settle(3)
		w.Scale(5)
		w.Settle(5)
		w.RollApp()
		w.Strike(emulator.Fault{ID: "drains", Path: scaleRoute, Drain: 10 * time.Second, Alert: true})
		w.Spare(0)
		w.Scale(3)
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.RefusedReason, "state Alert", "the portal's operator has to repair")
		Equal(w, "size", w.size(), 5)
		w.KilledNoPod(0)
		if !slices.ContainsFunc(w.events, func(e Event) bool { return strings.Contains(e.Message, "could not be drained") }) {
			t.Error("no event says that the portal could not drain the node")
		}
		w.Spare(3)
		w.must(w.Portal.Repair(w.Portal.Clusters()[0].ID))
		w.Settle(3)
		w.KilledNoPod(2)
		w.End()
	})
}

// TestDeletedMachineAndFewerReplicas deletes the Machine of the node that the portal removes next, while its MachineSet is paused, so that no
// Machine holds the node, and lowers the replicas. The provider drains the node.
func TestDeletedMachineAndFewerReplicas(t *testing.T) {
	tale(t, func(w *World) {
		w.Apply(newestFirst(2))
		w.Settle(2)
		w.Scale(3)
		w.Settle(3)
		w.RollApp()
		set := w.machineSets()[0]
		Edit(w, client.ObjectKeyFromObject(set), set, func(s *clusterv1.MachineSet) { s.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} })
		w.See(set, clusterv1.PausedCondition, "True")
		victim := w.newestMachine()
		w.Delete(victim)
		w.Gone(victim)
		w.Scale(2)
		w.Until("the portal has removed it", Patience, func() string { return diff(fmt.Sprint(w.size()), "2") })
		Edit(w, client.ObjectKeyFromObject(set), set, func(s *clusterv1.MachineSet) { delete(s.Annotations, clusterv1.PausedAnnotation) })
		w.Settle(2)
		w.KilledNoPod(1)
		w.End()
	})
}

// TestPersonAddsAWorker adds a worker on the portal's pages while the Cluster is paused, and lowers the replicas. The portal removes the added
// worker, too, whose Pods are evicted although no Machine has ever held it.
func TestPersonAddsAWorker(t *testing.T) {
	tale(t, func(w *World) {
		w.Apply(newestFirst(1))
		w.Settle(1)
		w.Scale(2)
		w.Settle(2)
		w.Pause()
		_, err := w.pages().ScaleCluster(context.Background(), w.Portal.Clusters()[0].ID, 3)
		w.must(err)
		w.Until("the worker has joined", Patience, func() string { return diff(fmt.Sprint(len(w.Workers())), "3") })
		w.Scale(1)
		w.RollApp()
		Equal(w, "sizes", w.resizes(), [][2]int{{1, 2}, {2, 3}})
		w.Resume()
		w.Settle(1)
		w.KilledNoPod(2)
		w.End()
	})
}

// TestPersonScales raises the size on the portal's pages. Only the Node that joins tells the provider, which asks for the old size, once.
func TestPersonScales(t *testing.T) {
	tale(t, func(w *World) {
		w.Apply(newestFirst(1))
		w.Settle(1)
		_, err := w.pages().ScaleCluster(context.Background(), w.Portal.Clusters()[0].ID, 2)
		w.must(err)
		w.Until("the worker has joined", Patience, func() string { return diff(fmt.Sprint(len(w.Workers())), "2") })
		w.Settle(1)
		Equal(w, "sizes", w.resizes(), [][2]int{{1, 2}, {2, 1}})
		w.KilledNoPod(1)
		w.End()
	})
}
