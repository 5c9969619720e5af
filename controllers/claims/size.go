// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// joinTime is how long drained nodes wait for further drains, to be removed in one request to the portal.
const joinTime = time.Minute

// decideSize decides whether to ask the portal for another number of workers. Nodes are added at once. Only drained nodes are
// removed, and never more than leave the desired number.
func (p *planner) decideSize() {
	p.plan.Reached = p.Lost && p.reached()
	p.plan.Certain = p.Uncertain && p.Operation == Idle && !p.Lost && p.asDesired()
	if p.plan.Reached || p.plan.Certain || p.Operation != Idle && !p.AskAgain {
		return
	}
	size := p.Size
	if size < 0 {
		size = len(p.places)
	}
	switch {
	case p.Operation != Idle:
		p.ask(max(p.Desired, p.resendSize()))
	case p.Desired > size, p.Uncertain && p.Desired > len(p.places):
		p.ask(p.Desired)
	case p.Desired < size && !p.tooMany(), p.Uncertain:
		p.decideDown(size)
	}
}

// asDesired reports whether exactly the desired number of workers is Ready, and no other Node exists.
func (p *planner) asDesired() bool { return len(p.Nodes) == p.Desired && p.ready() == p.Desired }

func (p *planner) ask(size int) { p.plan.Scale, p.plan.Size = true, size }

// reached reports whether the Nodes show that a scale is done. A Node that is not Ready may still be joining, or its machine may
// be gone.
func (p *planner) reached() bool {
	switch p.Operation {
	case AddingNodes:
		return p.ready() == p.Target
	case RemovingNodes:
		return len(p.Nodes) == p.Target
	}
	return false
}

// resendSize returns the number of workers to ask for after the answer to a request was lost, if no more are desired. The number is
// right whether or not the portal acted on the request. Only drained nodes are removed.
func (p *planner) resendSize() int {
	if p.Operation == RemovingNodes {
		return p.Target
	}
	return min(p.Target, p.ready())
}

// decideDown asks for the removal of all surplus nodes in one request. While others are still being drained, or core has not
// deleted all Machines yet, the drained nodes at the front of the removal order are removed after joinTime. A drain that blocks
// holds those behind it.
//
// If the size is uncertain, a request for the desired number settles it, even if nothing is left to remove. A request that
// removes only a part of the surplus is sent only if it cannot add nodes.
func (p *planner) decideDown(size int) {
	count, waited := p.removableInOrder()
	to := max(p.Desired, size-count)
	if p.Uncertain {
		doubtful := 0 // nodes that may be gone. The portal then runs fewer nodes, and fewer of these are drained
		for _, n := range p.leaving[:count] {
			doubtful += rank(!p.usable(n))
		}
		to = max(p.Desired, min(p.maxWorkers(), len(p.places)-doubtful)-(count-doubtful))
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

// settles reports whether a request for the desired number settles an uncertain size without harm, although live Machines need
// more nodes, because a roll-out waits for Machines whose nodes may be gone. Every node that would be removed is drained, or has
// a Machine and has not been Ready for so long that Kubernetes has evicted its Pods.
func (p *planner) settles() bool {
	first := p.removalOrder()[:max(0, len(p.places)-p.Desired)]
	return !slices.ContainsFunc(first, func(n *place) bool {
		return !p.removableNow(n) && (n.Ready || !n.inUse() || !p.long(n.Node))
	})
}

func (p *planner) ready() int { return len(keep(p.Nodes, func(n Node) bool { return n.Ready })) }

// removableNow reports whether the node can be removed without harm and no Machine has it.
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

// returning reports whether a node that stays after all still has to be made schedulable, which must not happen while the portal
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
