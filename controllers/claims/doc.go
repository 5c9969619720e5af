// SPDX-License-Identifier: Apache-2.0

// Package claims decides which Machine holds which worker node of a portal cluster, which nodes go when there are too many, and how
// many workers to ask the portal for. The portal decides which nodes exist: it takes a count and removes whichever node it likes.
// Machines are claims on those nodes.
//
// It is a pure function from what is seen (View) to what is to be done (Plan): no client, no clock, no memory. Package
// portalcontrolplane carries the plan out, one write at a time. Between any two writes it may be interrupted, and is then decided
// again from what is seen.
//
// The states of a claim:
//
//	Unbound ── Bind ──▶ Bound ── Machine is deleted ──▶ Held ── its node goes ──▶ Draining ── core drained it ──▶ Drained
//	   ▲                 │ ▲                            │ ▲ │                        │                              │
//	   │                 │ └── Bind: takes over         │ └─┘ Swap                   │                              │
//	   │                 └ node vanished ──▶ Lost       └── its node stays ──────────┴── its node stays ────────────┤
//	   └──────────── Bind to a free node ─────┘                                                                     ▼
//	                                                                                             Released ──▶ (gone)
//
// The states of a node that goes, which are annotations on the Node:
//
//		in use ── no Machine claims it ──▶ being drained by the provider ──▶ drained ──▶ removed by the portal ──▶ Node deleted
//		   ▲ └────── core drained it ────────────────────────────────────────▶ │
//		   └──────────────────────── the node stays after all ──────────────────┘
//
//	  - Leaving (leaving.go): the nodes that go next are the first in the order in which the portal is expected to remove them
//	    (order.go), as many as there are too many and as no live Machine needs.
//	  - Bind puts both deletion hooks on the Machine first, then the Node's identity on the PortalMachine. From the moment that core can
//	    know the Node, core cannot drain or delete it by itself.
//	  - Takeover: a new Machine beyond the number of workers is bound to the node of an outdated one of its own MachineDeployment, which
//	    is annotated to be deleted first. For a moment both hold the node. Then the outdated one is deleted, held and released.
//	  - Held: core waits at the pre-drain hook. If the Machine's node goes next, core may drain it. If another node goes next, the Machine
//	    takes that one (Swap), after the Machine that holds it has moved to the held Machine's node. Otherwise it is released at
//	    once, and its node stays.
//	  - Drained: core waits at the pre-terminate hook. The node keeps a mark and its cordon, and the Machine is released. So a request
//	    that is refused, fails or gets lost changes nothing: the node is still drained when it is asked for again, and core, which
//	    counts Machines that are being deleted, never waits for the portal.
//	  - A node that goes and that no Machine claims is drained by the provider, a few Pods at a time.
//	  - A drained node that stays, because the portal took another one or the replicas rose, is made schedulable again. The Machine
//	    whose node was taken is Lost, and is bound to it.
//	  - Released: the PortalMachine gets a providerID that no Node has. When the Machine shows it, its nodeRef is removed, and the hooks
//	    in a later write. Core then skips both the drain and the deletion of the Node. The Node object of a removed machine that stays
//	    behind is deleted by the provider.
//	  - Objects that are moved to another management cluster, or restored, forget that they were being deleted: a released claim is
//	    Unbound again, and a node that core was draining is made schedulable.
//
// What is known of the number of workers (View.Size) may be uncertain, after a request that failed half way. Then no request is
// made that could remove a node which is not drained, whether the portal runs all of the Nodes that are seen or only those that are Ready.
// One case is presumed, since nothing would be asked for any more otherwise: a Node that no Machine holds and that is not Ready for long is
// gone. If the portal still runs it, it may remove another node in its place.
//
// Why hooks, and not a finalizer on the PortalMachine: core works on the Machine that it read at the beginning of its pass, so what is
// ordered on the Machine is ordered for core; and a PortalMachine that is being deleted does not hand its providerID on any more.
package claims
