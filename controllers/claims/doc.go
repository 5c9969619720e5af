// SPDX-License-Identifier: Apache-2.0

// Package claims decides which Machine holds which worker node of a portal cluster. The portal decides which nodes
// there are: it takes a count, and removes whichever node it likes. Machines are claims on those nodes.
//
// It is a pure function from what is seen (View) to what is to be done (Plan): no client, no clock, no memory. The plan
// is carried out by package portalcontrolplane, a write at a time; between any two writes it may be interrupted and is
// then decided anew from what is seen.
//
// The states of a claim, and what moves it on:
//
//		Unbound ── Bind ──▶ Bound ── Machine is deleted ──▶ Held ── surplus ──▶ Draining ── core drained ──▶ Drained ── Node object left behind ──▶ (gone)
//		   ▲                  │  ▲                           │ ▲ │                 │                            │
//		   │                  │  └── Bind: takes over ── ... │ └─┘ Swap            │                            │
//		   │                  └ node vanished ──▶ Lost       └── no surplus ───────┴── surplus went away ───────┴── node vanished, or stays ──▶ Released ──▶ (gone)
//		   └──────────────── Bind to a free node ──┘
//
//	  - Bind puts both deletion hooks on the Machine first, then the Node's identity on the PortalMachine. So from the
//	    moment that core can know the Node, core cannot drain or delete it by itself.
//	  - Takeover: a new Machine beyond the number of workers is bound to the node of an outdated one of its own
//	    MachineDeployment, which is marked to be deleted first. For a moment both hold the node; then the marked one is
//	    deleted, held and released.
//	  - Held: core waits at the pre-drain hook. Only when the portal has more workers than the replicas ask for (a
//	    surplus) may a held Machine go on to be drained; otherwise it is released at once, and its node stays.
//	  - Swap: the portal is expected to remove certain nodes (order.go). A held Machine that is to be drained on another
//	    one takes an expected one first; the Machine that holds that one moves over to the held Machine's node.
//	  - Draining: the pre-drain hook is off, core drains. Drained: core waits at the pre-terminate hook. The portal is
//	    asked for fewer workers only when all that drain are drained, or after a minute by those that go first.
//	  - Drained ends when the Machine's Node is gone: the Machine is released, for core drains and deletes by name, and the
//	    next node may have this one's. Only a Node object that is left behind by a machine that is gone is let go of with its
//	    Machine, when the portal is at rest: core deletes it, and nobody else would. If the portal took another node instead,
//	    this one is still running: the Machine is released too; and the Machine whose node was taken is Lost, and is bound
//	    to the one that is now free.
//	  - Released: the PortalMachine gets a providerID that no Node has; when the Machine shows it, its nodeRef is taken
//	    away, and only then, in a later write, the hooks. Core then skips both drain and deletion of the Node.
//	  - Objects that are moved to another management cluster, or restored, forget that they were being deleted: a released
//	    claim is Unbound again then, and a node that was being drained is made schedulable.
//
// Why hooks, and not a finalizer on the PortalMachine: core works on the Machine that it read at the beginning of its
// pass, so what is ordered on the Machine is ordered for core; and a PortalMachine that is being deleted no longer
// hands its providerID on.
package claims
