// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// Change is an object as the plan has seen it and as it should be. Only the fields that differ are written.
type Change[T Machine | Node] struct{ Seen, Want T }

// Write is one write of a plan, to one object.
type Write struct {
	Step    Step
	List    []string        // WriteList
	Node    Change[Node]    // WriteNode, DrainNode, DeleteNode
	Machine Change[Machine] // WriteMachine, WriteClaim, WriteNodeRef
	Why     string          // for people
}

// Step is what a Write is about.
type Step int

// The steps, in the order in which a plan takes them. The order makes interruptions safe: a write does no harm without those that follow
// it, and the next plan still asks for these.
const (
	// WriteList writes the list of the pool, once. It names a Node before the Node gets its providerID: core may know an earlier Node
	// of that name, and deletes a Node whose ID is not in the list. For the same reason core must not see half of a list.
	WriteList Step = iota
	// WriteNode writes the providerID of a Node, its cordon and its records: drained, drain rules, autoscaler. A claim
	// needs the providerID. The rest follows from the Machine as it is before the later steps: once it is released, or has its hooks
	// again, no plan would know that the Node has to change.
	WriteNode
	// WriteMachine writes the annotations of a Machine: hooks, deletion first. A Machine needs the hooks before it gets a node,
	// and the Machine that it takes the node over from must be the first to be deleted by then.
	WriteMachine
	// WriteClaim binds a PortalMachine to a Node, or releases it.
	WriteClaim
	// WriteNodeRef writes the nodeRef of a Machine that shows its claim. The next plan sees it, and lets core drain or delete.
	WriteNodeRef
	// DrainNode is one step of a drain by the provider: it cordons the Node, evicts a few Pods, or records that none is left. It may
	// take seconds, so the writes of Machines do not wait for it.
	DrainNode
	// DeleteNode deletes the Node object of a drained machine that the portal has removed.
	DeleteNode
)

// write plans the writes of all objects that are not as they should be, the provider's own drains, and the deletions of Node objects.
func (p *planner) write() {
	if p.Pool != nil && !slices.Equal(p.list, p.Pool.List) {
		p.add(Write{Step: WriteList, List: p.list, Why: "the pool lists the Nodes that belong to it"})
	}
	for _, n := range p.nodes {
		if n.want != n.Node {
			p.add(Write{Step: WriteNode, Node: Change[Node]{n.Node, n.want}, Why: n.why.String()})
		}
	}
	for _, step := range []Step{WriteMachine, WriteClaim, WriteNodeRef} {
		for _, c := range p.claims {
			if c.differs(step) {
				p.add(Write{Step: step, Machine: Change[Machine]{c.Machine, c.want}, Why: c.why.String()})
			}
		}
	}
	p.drainByProvider()
	p.deleteLeftOver()
}

func (p *planner) add(w Write) { p.plan.Writes = append(p.plan.Writes, w) }

// differs reports whether the part of the Machine that a step writes is not as it should be.
func (c *claim) differs(step Step) bool {
	switch step {
	case WriteClaim:
		return c.want.Claim != c.Claim
	case WriteNodeRef:
		return c.want.NodeRef != c.NodeRef
	}
	return c.want.PreDrain != c.PreDrain || c.want.PreTerminate != c.PreTerminate || c.want.DeleteFirst != c.DeleteFirst
}

// evictInterval is the time between two steps of the provider's own drain: Pods are not watched.
const evictInterval = 5 * time.Second

// drainByProvider takes a step of the provider's own drain of the nodes that are removed next and that no Machine claims, and of those that
// the portal may remove instead. A drained node that was made schedulable in the meantime is drained again.
func (p *planner) drainByProvider() {
	for _, n := range slices.Concat(p.leaving, p.instead) {
		why := "no Machine has it, and " + p.goes(n)
		if n.instead {
			why = p.goesInstead(n)
		}
		begins := n.DrainStarted.IsZero()
		if n.taken || len(n.departing) > 0 || n.inUse() && !n.instead || p.removable(n) || begins && !p.settled() {
			continue
		}
		p.add(Write{Step: DrainNode, Node: Change[Node]{n.Node, n.Node}, Why: why})
		p.requeueAfter(evictInterval)
	}
}

// deleteLeftOver deletes the Node objects of drained machines that the portal has removed. Core deletes a Node object only with
// its Machine, and the Machine of a drained node is gone already. A Node whose machine may be running is never deleted: it must
// be drained and not Ready for a while, and as many other Nodes must be Ready as the portal runs.
func (p *planner) deleteLeftOver() {
	if p.Activity != Idle || p.Size < 0 || p.SizeUncertain || p.readyCount() < p.Size {
		return
	}
	for _, n := range p.Nodes {
		if !n.Ready && !n.Drained.IsZero() && !p.claimed(n) && p.isLost(n) {
			p.add(Write{Step: DeleteNode, Node: Change[Node]{Seen: n}, Why: "it was drained and is not Ready, and as many other Nodes are Ready as the portal runs workers"})
		}
	}
}
