// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
)

// pictured returns the Machines in the picture's format, sorted by name. A Machine and its PortalMachine have the same name. ids
// are those of the clusters on the page, by Cluster.
func pictured(machines []clusterv1.Machine, portalMachines []infrav1.PortalMachine, ids map[client.ObjectKey]string) []page.Machine {
	found := map[client.ObjectKey]*infrav1.PortalMachine{}
	for i := range portalMachines {
		found[client.ObjectKeyFromObject(&portalMachines[i])] = &portalMachines[i]
	}
	slices.SortFunc(machines, func(a, b clusterv1.Machine) int { // of two Machines on a node, the older one first
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	holders := map[infrav1.BoundNode]string{}
	out := make([]page.Machine, 0, len(machines))
	for i := range machines {
		m := &machines[i]
		shown := page.Machine{
			Name: m.Name, Cluster: m.Spec.ClusterName, Version: m.Spec.Version,
			ClusterID: ids[keyOf(m.Namespace, m.Spec.ClusterName)],
		}
		node := claimed(found[client.ObjectKeyFromObject(m)])
		shown.State = machineState(m, found[client.ObjectKeyFromObject(m)])
		if node != nil {
			shown.Node = node.Name
			if holder := holders[*node]; holder != "" && m.DeletionTimestamp.IsZero() {
				shown.State, shown.From = page.MachineTakeover, holder
			}
			holders[*node] = m.Name
		}
		out = append(out, shown)
	}
	slices.SortFunc(out, func(a, b page.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// claimed returns the node that a PortalMachine claims, or nil.
func claimed(claim *infrav1.PortalMachine) *infrav1.BoundNode {
	if claim == nil || claims.IsReleased(claim.Spec.ProviderID) {
		return nil
	}
	return claim.Spec.Node
}

// machineState returns the state of a Machine, as far as the Machine and its PortalMachine show it.
func machineState(m *clusterv1.Machine, claim *infrav1.PortalMachine) page.MachineState {
	deletion := m.Status.Deletion
	switch {
	case claim != nil && claims.IsReleased(claim.Spec.ProviderID):
		return page.MachineReleased
	case !m.DeletionTimestamp.IsZero() && deletion != nil && !deletion.WaitForPreTerminateHookStartTime.IsZero():
		return page.MachineDrained
	case !m.DeletionTimestamp.IsZero() && deletion != nil && !deletion.NodeDrainStartTime.IsZero():
		return page.MachineDraining
	case !m.DeletionTimestamp.IsZero():
		return page.MachineHeld
	case claimed(claim) == nil:
		return page.MachineWaiting
	case !m.Status.NodeRef.IsDefined():
		return page.MachineJoining
	}
	return page.MachineRunning
}
