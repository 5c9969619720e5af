// SPDX-License-Identifier: Apache-2.0

// Package portalmachinepool reconciles PortalMachinePools: it reports how a pool stands, and lets it go when its nodes are gone. Which nodes
// belong to the pool is decided by package claims and written by package portalcontrolplane, for all Machines and the pool of a Cluster
// together. This package never calls the portal. It writes status and the finalizer only.
//
// A Cluster has one pool at most. The portal makes all workers alike, and nothing on a node could say which of two pools it belongs to. If
// there are two MachinePools, the one that names nodes already, else the older one, has them (Chosen). The replicas of the other one do not
// count until that one is gone.
//
// The states of a pool:
//
//	waiting ─▶ growing ⇄ complete ⇄ shrinking ─▶ deleting ─▶ gone
//	   └ another pool has the nodes
//
//	waiting    no MachinePool owns the object yet
//	growing    replicas rose, or a Machine took a node: the sum is asked for, and new nodes that no Machine waits for are listed
//	complete   as many nodes are listed, and not claimed by a Machine, as there are replicas
//	shrinking  replicas fell: the nodes that the portal is expected to remove next are drained like every node without a Machine, then the
//	           sum is asked for. If a Machine holds one of them, it moves to a node of the pool first
//	deleting   the MachinePool is being deleted: its replicas count as 0. The finalizer stays until spec.providerIDList is empty
//	gone       core removes the MachinePool
//
// The states of an ID in spec.providerIDList:
//
//	(none) ── Enlist ──▶ listed, the node belongs to the pool ── its Node object is gone ──▶ Strike
//	                        │ ▲
//	                        ▼ └ the Machine is gone
//	                     listed, a Machine has taken the node over
//
// Core v1.14 deletes the Node object of an ID that leaves the list, and does not ask whether the machine still runs. So an ID leaves the list
// only when no Node has it and the portal is at rest. A node that a Machine has taken over therefore stays listed, although it is not one of the
// pool's any more. Until it is gone, status.replicas and the nodeRefs of core's MachinePool show one too many. To make that rare, the pool
// gets the nodes that the portal is expected to remove first.
//
// What can interrupt it:
//
//   - The manager ends between two writes. The list is read again: an ID without a Node is struck, a node without an ID is named.
//   - A new Node comes under the name of one that was removed. Core looks for retired Nodes by name. It keeps the name of a removed Node if no
//     other node of the list exists, and while it is away. So an ID under such a name is listed first, whoever has the node, and the Node gets
//     it once core has copied the list. If the portal sets providerIDs itself, the new Node has an ID that the list cannot name in time. So
//     package portalcontrolplane has core pause the MachinePool during an upgrade, and removes nodeRefs to Nodes that are gone. If the
//     portal replaces a node by itself, under the same name and faster than core notices, core may still delete the new Node object.
//   - The PortalMachinePool is deleted by hand while its MachinePool stays. Nothing changes until the MachinePool is deleted, too.
//   - The Cluster is deleted: its nodes go with the portal cluster, so the finalizer goes at once. A deletion by the garbage collector that
//     nobody meant, after a restore, lets the object go as well, and the nodes stay: their replicas count until the MachinePool is gone.
//   - The PortalControlPlane is being deleted or gone while the Cluster stays: nobody drains nodes any more, so the finalizer goes at once.
//   - The portal refuses a cluster without workers: the last node stays, belongs to nobody, and the pool goes without it.
//
// The replicas are those of the MachinePool, whoever writes them: a user, or an autoscaler that the annotation
// cluster.x-k8s.io/replicas-managed-by names. The portal has no autoscaler of its own, so the provider never writes them.
package portalmachinepool
