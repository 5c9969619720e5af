// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// joinTime is how long drained nodes wait for further drains to join them in one request to the portal.
const joinTime = time.Minute

// decideSize decides whether the portal is to be asked for another number of workers: up at once; down only by nodes that are
// drained, and never below what is desired.
func (p *planner) decideSize() {
	p.plan.Reached = p.Lost && p.reached()
	p.plan.Certain = p.Uncertain && p.Operation == Idle && !p.Lost && p.right()
	if p.plan.Reached || p.plan.Certain || p.Operation != Idle && !p.AskAgain {
		return
	}
	size := p.Size
	if size < 0 {
		size = len(p.places)
	}
	switch {
	case p.Operation != Idle:
		p.ask(max(p.Desired, p.again()))
	case p.Desired > size, p.Uncertain && p.Desired > len(p.places):
		p.ask(p.Desired)
	case p.Desired < size && !p.tooMany(), p.Uncertain:
		p.decideDown(size)
	}
}

// right reports whether as many workers as are desired are Ready, and there is no other Node.
func (p *planner) right() bool { return len(p.Nodes) == p.Desired && p.ready() == p.Desired }

func (p *planner) ask(size int) { p.plan.Scale, p.plan.Size = true, size }

// reached reports whether the Nodes show that a scale is done. A Node that is not Ready may be on its way, or its machine may be gone.
func (p *planner) reached() bool {
	switch p.Operation {
	case AddingNodes:
		return p.ready() == p.Target
	case RemovingNodes:
		return len(p.Nodes) == p.Target
	}
	return false
}

// again returns the number of workers to ask for after the answer to a request was lost, if no more are desired: one that is right
// whether the portal acted on the request or not. No node goes that is not drained.
func (p *planner) again() int {
	if p.Operation == RemovingNodes {
		return p.Target
	}
	return min(p.Target, p.ready())
}

// decideDown asks for all that go in one request. While others are still drained, or core has yet to delete Machines, the drained
// nodes that are expected to go first go after joinTime. A drain that blocks holds those behind it.
//
// If the size is uncertain, a request for what is desired settles it, also if nothing is left to remove. Fewer nodes than all that go
// are only asked for if that cannot be a way up.
func (p *planner) decideDown(size int) {
	count, waited := p.removableInOrder()
	to := max(p.Desired, size-count)
	if p.Uncertain {
		doubtful := 0 // nodes that may be gone: then the portal runs fewer, and fewer of these are drained
		for _, n := range p.leaving[:count] {
			doubtful += rank(!p.usable(n))
		}
		to = max(p.Desired, min(p.most(), len(p.places)-doubtful)-(count-doubtful))
	}
	complete := count == len(p.leaving) && !p.partial
	switch {
	case p.returning():
	case p.Uncertain && (to == p.Desired || p.settles()):
		p.ask(p.Desired)
	case count == 0, p.Uncertain && to > p.ready():
	case complete, waited && (p.Order != Random || count == len(p.leaving)):
		p.ask(to)
	}
}

// settles reports whether a request for what is desired settles an uncertain size without harm, although live Machines need more nodes: a
// roll-out waits for Machines whose nodes may be gone. Every node that goes first is drained, or has a Machine and has not been Ready for
// so long that Kubernetes has evicted its Pods.
func (p *planner) settles() bool {
	first := p.removalOrder()[:max(0, len(p.places)-p.Desired)]
	return !slices.ContainsFunc(first, func(n *place) bool {
		return !p.removableNow(n) && (n.Ready || !n.inUse() || !p.long(n.Node))
	})
}

func (p *planner) ready() int { return len(keep(p.Nodes, func(n Node) bool { return n.Ready })) }

// removableNow reports whether the node can be removed without harm and without a Machine that still has it.
func (p *planner) removableNow(n *place) bool {
	return p.removable(n) && n.free() && !p.shown(n)
}

// removableInOrder returns how many nodes at the front of the removal order can be removed now, and whether one of them has waited
// joinTime for others.
func (p *planner) removableInOrder() (count int, waited bool) {
	for _, n := range p.leaving {
		if !p.removableNow(n) {
			break
		}
		count++
		if p.past(n.Drained, joinTime) {
			waited = true
		}
	}
	return count, waited
}

// returning reports whether a node that stays after all is still to be made schedulable, which must not happen while the portal
// removes nodes. Core may cordon a node until its Machine has forgotten it.
func (p *planner) returning() bool {
	for _, c := range p.claims {
		left := p.named(c.ClaimNode)
		released := c.state == stateReleased && c.waits() || p.has(Detach, c) && !p.has(MarkDrained, c)
		if released && !c.PreDrain && left != nil && !left.inCustody() {
			return true
		}
	}
	return slices.ContainsFunc(p.plan.Moves, func(m Move) bool { return m.Kind == Uncordon })
}
