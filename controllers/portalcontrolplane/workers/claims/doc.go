// SPDX-License-Identifier: Apache-2.0

// Package claims decides which Machine holds which worker node of a portal cluster, which nodes are drained when there are too many, and
// how many workers to ask the portal for. The portal decides which nodes exist: it takes a number, and chooses the nodes it removes.
// Machines are claims on those nodes.
//
// It is a pure function from a View (the objects as they are now) to a Plan: no client, no clock, no memory. The plan says how Machines,
// Nodes and the pool's list should be. Decide lists the phases in which it is made. Package workers writes what differs, one object at a time,
// in the order of the steps in write.go. Between any two writes it may be interrupted. Then a new plan is made from the objects as they are.
//
// The states of a claim:
//
//	Unbound ── bind ──▶ Bound ── Machine is deleted ──▶ Held ── its node goes ──▶ Draining ── core drained it ──▶ Drained
//	   ▲                 │ ▲                            │ ▲ │                        │                              │
//	   │                 │ └── bind: takes over         │ └─┘ swap                   │                              │
//	   │                 └ node vanished ──▶ Lost       └── its node stays ──────────┴── its node stays ────────────┤
//	   └──────────── bind to a free node ─────┘                                                                     ▼
//	                                                                                             Released ──▶ (gone)
//
// The states of a node that is removed, which are annotations on the Node:
//
//	in use ── core does not drain it ▶ being drained by the provider ──▶ drained ──▶ removed by the portal ──▶ Node deleted
//	   ▲ └────── core drained it ────────────────────────────────────────▶ │
//	   └──────────────────────── the node stays after all ──────────────────┘
//
// How nodes and claims change state:
//
//   - Leaving (leave.go): the nodes to remove next are the first ones in the order in which the portal is expected to remove them
//     (removalOrder), as many as are surplus and as no live Machine needs. While that order is a guess, a request removes one node (ask.go).
//   - Instead (leave.go): the nodes that one operation of the portal made are a batch. If only a part of a batch goes, and nothing has shown
//     which, the other nodes of the batch may go instead. If they are few, they are drained too, although Machines hold them, and the portal is
//     asked afterwards. Those that stay are made schedulable again. A Machine whose node went instead is Lost, and is bound to one of these.
//   - Bound: the Machine gets both deletion hooks first, then its PortalMachine gets the Node's identity. The hooks keep core from
//     draining or deleting the Node on its own.
//   - Takeover: a new Machine beyond the number of workers is bound to the node of an outdated one of its own MachineDeployment, which
//     is annotated to be deleted first. For a moment both hold the node. Then the outdated one is deleted, held and released.
//   - Held: core waits at the pre-drain hook. If the Machine's node is removed next, core may drain it. If another node is removed next,
//     the Machine takes that one (a swap), after the Machine that holds it has moved to the held Machine's node. Otherwise the Machine is
//     released at once, and its node stays.
//   - Drained: core waits at the pre-terminate hook, and for no hook of another controller. The node keeps a mark and its cordon, and the
//     Machine is released. So a request that is refused, fails or gets lost changes nothing: the node is still drained when the provider
//     asks again. Core, which counts Machines that are being deleted, never waits for the portal.
//   - A node that no Machine claims is drained by the provider, and so is one that may go instead, a few Pods at a time. It is drained when
//     its volumes are detached too.
//   - A drained node that stays, because the portal took another one or the replicas rose, is made schedulable again. The Machine
//     whose node was taken is Lost, and is bound to it.
//   - Released: the PortalMachine gets a providerID that no Node has. When the Machine shows it, its nodeRef is removed, and the hooks
//     in a later write. Core then skips both the drain and the deletion of the Node. The Node object of a removed machine that stays
//     behind is deleted by the provider.
//   - Objects that are moved to another management cluster, or restored, forget that they were being deleted: a released claim is
//     Unbound again, and a node that core was draining is made schedulable.
//
// The Node of a machine that is gone stays Ready for up to 50 seconds. So a scale-down that has ended counts as going on for a minute, unless its
// Nodes are gone before (read.go).
//
// After a request that failed half way, the number of workers (View.Size) may be uncertain. Then no request is made that could remove a
// node which is not drained, whether the portal runs all of the Nodes or only the Ready ones. There is one assumption, without which the
// portal would never be asked again: a Node that no Machine holds and that has not been Ready for long is gone. If the portal still runs
// it, the portal may remove another node in its place.
//
// The package uses hooks on the Machine instead of a finalizer on the PortalMachine for two reasons. Core works on the Machine that it
// read at the start of its pass, so writes to the Machine take effect in order. And core does not copy the providerID from a
// PortalMachine that is being deleted.
package claims
