// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestPlaceIsCorrected creates a Cluster with a misspelt VPC, in a zone without capacity. The user corrects both, and the number of control nodes with
// them. The new VPC is created. The portal gets one cluster, where the corrected objects say.
func TestPlaceIsCorrected(t *testing.T) {
	tale(t, func(w *World) {
		w.Strike(emulator.Fault{ID: "full", Path: createRoute, Code: emulator.CodeInsufficientCapacity})
		m := NewManifest(2)
		m.PortalCluster.Spec.VPC.Name = "defautl"
		w.Apply(m)
		w.See(thePortalCluster(), infrav1.ReadyCondition, "False Refused", `0 VPCs of the portal account are named "defautl"`, "correct spec.vpc")
		Edit(w, key, thePortalCluster(), func(pc *infrav1.PortalCluster) { pc.Spec.VPC = infrav1.PortalVPC{Name: "new", Create: new(true)} })
		w.See(theControl(), infrav1.ProvisionedCondition, "False InsufficientCapacity", "(requestId req-", "To use another zone, set spec.zoneID of PortalCluster "+name)
		uid := read(w, theControl()).UID
		Edit(w, key, theControl(), func(cp *infrav1.PortalControlPlane) { cp.Spec.Replicas = new(int32(3)) })
		Edit(w, key, thePortalCluster(), func(pc *infrav1.PortalCluster) { pc.Spec.ZoneID = "zone-2" })
		w.Until("a request asks for the other zone", Patience, func() string {
			state, err := operation.Load(read(w, theControl()))
			w.must(err)
			return diff(state.Last.Record.ZoneID, "zone-2")
		})
		w.Heal("full") // the other zone has room
		w.Settle(2)
		c := w.Portal.Clusters()[0]
		Equal(w, "place", fmt.Sprint(c.ZoneID, c.ControlNodes, read(w, thePortalCluster()).Status.ZoneID), "zone-23zone-2")
		Equal(w, "UID", read(w, theControl()).UID, uid)
		if !strings.Contains(w.words(), "vpcs") {
			t.Errorf("requests: %s", w.words())
		}
		w.End()
	})
}

// TestAdoption deletes a Cluster that retains its portal cluster, and adopts that by its id. Without a MachineDeployment no node goes. Then
// there is one, and its Machine is deleted by hand, after its PortalMachine. All nodes stay.
func TestAdoption(t *testing.T) {
	tale(t, func(w *World) {
		m := NewManifest(2)
		m.ControlPlane.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain
		w.Apply(m)
		w.Settle(2)
		before := w.uids()
		for _, o := range m.objects()[1:] {
			w.Delete(o)
		}
		w.Gone(m.objects()[1:]...)
		w.Asked("create")
		adopted := NewManifest(1)
		adopted.ControlPlane.Spec.ClusterID, adopted.ControlPlane.Spec.DeletionPolicy = w.Portal.Clusters()[0].ID, infrav1.DeletionPolicyDelete
		for _, o := range adopted.objects()[1:4] {
			w.Create(o)
		}
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.WaitingForObjectReason, "2 worker nodes stay")
		w.Create(adopted.Template)
		w.Create(adopted.Workers)
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.NodesUnclaimedReason, "Raise the replicas until each node has a Machine")
		w.Until("the Machine has a node", Patience, func() string { return diff(fmt.Sprint(len(w.bound(name))), "1") })
		victim := w.Machines()[0]
		w.Delete(&infrav1.PortalMachine{ObjectMeta: named(victim.Spec.InfrastructureRef.Name)})
		w.Delete(&clusterv1.Machine{ObjectMeta: named(victim.Name)})
		w.Gone(victim)
		w.Scale(2)
		w.Settle(2)
		Equal(w, "worker Nodes", w.uids(), before)
		w.End()
		w.Asked("create", "delete")
	})
}
