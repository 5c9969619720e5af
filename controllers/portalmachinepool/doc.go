// SPDX-License-Identifier: Apache-2.0

// Package portalmachinepool reconciles PortalMachinePools: it reports their status, and removes their finalizer when their nodes are
// gone. Package claims decides which nodes belong to the pool, and package workers writes them down, for all Machines and the
// pool of a Cluster together. This package never calls the portal. It writes status and the finalizer only.
//
// A Cluster has one pool at most. The portal makes all workers alike, and no mark on a node could show which of two pools it belongs to.
// If two MachinePools exist, the one that names nodes already has them, else the older one (workers.ChosenPool). The replicas of the other one do not
// count until that one is gone.
//
// The states of a pool:
//
//	waiting ─▶ growing ⇄ complete ⇄ shrinking ─▶ deleting ─▶ gone
//	   └ another pool has the nodes
//
//	waiting    no MachinePool owns the object yet
//	growing    replicas rose, or a Machine took a node: the provider asks for the new sum, and lists new nodes that no Machine waits for
//	complete   the list has as many unclaimed nodes as the replicas ask for
//	shrinking  replicas fell: the nodes that the portal is expected to remove next are drained like every node without a Machine, then the
//	           provider asks for the new sum. If a Machine holds one of them, it moves to a node of the pool first
//	deleting   the MachinePool is being deleted: its replicas count as 0. The finalizer stays until spec.providerIDList is empty
//	gone       core removes the MachinePool
//
// The states of an ID in spec.providerIDList:
//
//	(none) ── the pool gets the node ──▶ listed, the node belongs to the pool ── its Node object is gone ──▶ (none)
//	                                     │ ▲
//	                                     ▼ └ the Machine is gone
//	                                  listed, a Machine has taken the node over
//
// Core v1.14 deletes the Node object of an ID that leaves the list, and does not ask whether the machine still runs. So an ID leaves the list
// only when no Node has it and the portal is at rest. A node that a Machine has taken over therefore stays listed, although it is not one of the
// pool's any more. Until it is gone, status.replicas and the nodeRefs of core's MachinePool show one too many. To make that rare, the pool
// gets the nodes that the portal is expected to remove first.
//
// What can interrupt a pool:
//
//   - The manager stops between two writes. The list is read again: an ID without a Node is removed, and a Node without an ID gets one.
//   - A new Node has the name of one that was removed. Core looks for retired Nodes by name. It keeps the name of a removed Node if no
//     other node of the list exists, and while core itself is not running. So an ID under such a name is listed first, even if a Machine has
//     the node, and the Node gets the ID once core has copied the list. If the portal sets providerIDs itself, the new Node has an ID that the
//     list cannot name in time. So package workers has core pause the MachinePool during an upgrade, and removes nodeRefs to
//     Nodes that are gone. If the portal replaces a node on its own, under the same name and faster than core notices, core may still
//     delete the new Node object.
//   - The PortalMachinePool is deleted by hand while its MachinePool stays. Nothing changes until the MachinePool is deleted too.
//   - The Cluster is deleted: its nodes are deleted with the portal cluster, so the finalizer is removed at once. The finalizer is also
//     removed if the garbage collector deleted the object after a restore. The nodes then stay, and their replicas count until the
//     MachinePool is gone.
//   - The PortalControlPlane is being deleted or gone while the Cluster stays. Nodes are not drained any more, so the finalizer is removed
//     at once.
//   - The portal refuses a cluster without workers: the last node stays, belongs to no pool, and the pool goes without it.
//
// The replicas come from the MachinePool. A user writes them, or an autoscaler that the annotation cluster.x-k8s.io/replicas-managed-by
// names. The portal has no autoscaler of its own, so the provider never writes them.
package portalmachinepool
