// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// joinTime is how long drained nodes wait for further drains, to be removed in one request to the portal.
const joinTime = time.Minute

// insteadTime is how long the portal is not asked because a node that it may remove instead is still being drained. Its Pods may find
// no room on the nodes that are left. Later the choice is a guess, as it is if there are many such nodes.
const insteadTime = 5 * time.Minute

// ask decides whether to ask the portal for another number of workers. Nodes are added at once. Fewer are asked for by decideDown, and never
// fewer than desired.
func (p *planner) ask() {
	p.plan.Reached = p.AnswerLost && p.scaleReached()
	p.plan.SizeCertain = p.sizeCertain()
	if p.plan.Reached || p.plan.SizeCertain || p.Activity != Idle && !p.MayResend {
		return
	}
	size := p.Size
	if size < 0 {
		size = len(p.workers)
	}
	switch {
	case p.Activity != Idle:
		p.requestSize(max(p.Desired, p.resendSize()))
	case p.Unasked && p.allStay(size):
	case p.Desired > size && p.Desired >= len(p.workers), p.SizeUncertain && p.Desired > len(p.workers):
		p.requestSize(p.Desired)
	case p.Desired < size && !p.moreNodesThanSize(), p.SizeUncertain:
		p.decideDown(size)
	}
}

// sizeCertain reports whether an uncertain size is certain now: exactly the desired number of workers is Ready, and no other Node
// exists.
func (p *planner) sizeCertain() bool {
	return p.SizeUncertain && p.Activity == Idle && !p.AnswerLost && len(p.Nodes) == p.Desired && p.readyCount() == p.Desired
}

// allStay reports whether a portal that no object asks for workers need not be asked: all that exist stay, however many that are.
func (p *planner) allStay(size int) bool {
	unclear := slices.ContainsFunc(p.workers, func(n *worker) bool { return !p.usable(n) })
	return !p.AnswerLost && (len(p.leaving) == 0 || p.Desired >= size || unclear)
}

func (p *planner) requestSize(size int) {
	p.plan.Scale, p.plan.Size, p.plan.Why = true, size, p.requestReason(size)
}

// scaleReached reports whether the Nodes show that a scale is done. A Node that is not Ready may still be joining, or its
// machine may be gone.
func (v *View) scaleReached() bool {
	switch v.Activity {
	case AddingNodes:
		return v.readyCount() == v.Target
	case RemovingNodes:
		return len(v.Nodes) == v.Target
	}
	return false
}

// resendSize returns the number of workers to ask for after the answer to a request was lost, if no more are desired. The number is
// right whether or not the portal acted on the request. Only drained nodes are removed.
func (v *View) resendSize() int {
	if v.Activity == RemovingNodes {
		return v.Target
	}
	return min(v.Target, v.readyCount())
}

// decideDown asks for fewer workers, if possible for all of the surplus in one request. All of these have to hold:
//
//   - The nodes at the front of the line are drained or lost, and no Machine has them (removableInOrder). A drain that blocks holds those
//     behind it.
//   - They are all that leave. Or one has waited joinTime for others that are still being drained, or whose Machines core has yet to delete.
//   - Nodes that may go instead are drained too, or insteadTime is over (atOnce).
//   - No node that stays has yet to be made schedulable (uncordonPending).
//
// If the size is uncertain, a request for the desired number makes it certain, even if nothing is left to remove. A request that
// removes only a part of the surplus is sent only if it cannot add nodes.
//
// While the order of removal is a guess, between batches or within one, a request removes one node, so that a wrong guess costs no more
// than that node. The next request follows when the nodes were compared (learn). If no node stays, the order makes no difference.
func (p *planner) decideDown(size int) {
	count, waited := p.removableInOrder()
	to := max(p.Desired, size-count)
	if p.SizeUncertain {
		doubtful := len(slices.DeleteFunc(slices.Clone(p.leaving[:count]), p.usable)) // may be gone. Then fewer nodes exist, and fewer of these are drained
		to = max(p.Desired, min(p.maxWorkers(), len(p.workers)-doubtful)-(count-doubtful))
		size = min(p.maxWorkers(), len(p.workers), p.readyCount()+1) // to ask for one fewer adds no nodes
	}
	certain := p.SizeUncertain && (to == p.Desired || p.desiredMakesCertain())
	if certain {
		to = p.Desired
	}
	most := p.atOnce(count)
	if to > 0 {
		to = max(to, size-most)
	}
	complete := count == len(p.leaving) && !p.partial
	switch {
	case p.uncordonPending(), most == 0:
	case certain:
		p.requestSize(to)
	case count == 0, p.SizeUncertain && to > p.readyCount():
	case complete, waited && (p.Order != removal.Random || count == len(p.leaving)):
		p.requestSize(to)
	}
}

// desiredMakesCertain reports whether a request for the desired number makes an uncertain size certain without harm, although live
// Machines need more nodes, because a roll-out waits for Machines whose nodes may be gone. Every node that would be removed is
// drained, or has a Machine and has not been Ready for so long that Kubernetes has evicted its Pods.
func (p *planner) desiredMakesCertain() bool {
	first := p.line[:max(0, len(p.workers)-p.Desired)]
	return !slices.ContainsFunc(first, func(n *worker) bool {
		return !p.removableNow(n) && (n.Ready || !n.inUse() || !p.isLost(n.Node))
	})
}

// atOnce returns how many nodes one request may remove, if the first count nodes in the order of removal are drained: all, or fewer if the
// others are a matter of guess, at least 1. It is 0 if the request has to wait for the drains of other nodes.
func (p *planner) atOnce(count int) int {
	all := max(1, len(p.workers)) // a request that removes none need not wait
	if count == len(p.workers) || p.Order == removal.Random || count == 0 && !p.OrderAssumed {
		return all
	}
	certain := count
	if count < len(p.leaving) || !p.insteadDrained() {
		for certain > 0 && certain < len(p.line) && p.alike(p.line[certain-1], p.line[certain]) {
			certain--
		}
	}
	switch {
	case certain == 0 && p.waitsForInstead(count):
		return 0
	case certain == 0, p.OrderAssumed:
		return 1
	case certain < count:
		return certain
	}
	return all
}

// insteadDrained reports whether every node that the portal may remove instead is drained.
func (p *planner) insteadDrained() bool {
	return len(p.instead) > 0 && !slices.ContainsFunc(p.instead, func(n *worker) bool { return !n.drained() })
}

// waitsForInstead reports whether a request waits until all nodes that leave, and those that may go instead, are drained.
func (p *planner) waitsForInstead(count int) bool {
	if p.DrainPossible || len(p.instead) == 0 {
		return p.DrainPossible
	}
	last := slices.MaxFunc(p.leaving, func(a, b *worker) int { return a.Drained.Compare(b.Drained) })
	return count < len(p.leaving) || !p.hasElapsed(last.Drained, insteadTime)
}

// removableInOrder returns how many nodes at the front of the removal order can be removed now, and whether one of them has waited
// joinTime for others.
func (p *planner) removableInOrder() (count int, waited bool) {
	for _, n := range p.leaving {
		if !p.removableNow(n) {
			break
		}
		count++
		if p.hasElapsed(n.Drained, joinTime) {
			waited = true
		}
	}
	return count, waited
}

// removableNow reports whether the node can be removed without harm. No Machine may have it, or still show it: users would
// see a Machine whose Node is gone.
func (p *planner) removableNow(n *worker) bool {
	return p.removable(n) && n.free() && !p.claimed(n.Node)
}

// removable reports whether the portal may remove the node without harm. It is drained, or it has no Machine, is cordoned, and
// has not been Ready for so long that Kubernetes has evicted its Pods.
func (p *planner) removable(n *worker) bool {
	if n.drained() {
		return true
	}
	return !n.Ready && n.Cordoned && n.free() && p.isLost(n.Node)
}

// uncordonPending reports whether a node that stays after all still has to be made schedulable, which must not happen while the
// portal removes nodes. Core may cordon a node until its Machine has forgotten it. A node that cannot be changed is not waited for.
func (p *planner) uncordonPending() bool {
	for _, c := range p.claims {
		left := p.nodeNamed(c.ClaimNode)
		released := c.blockedByHooks() && IsReleased(c.want.ClaimProviderID)
		if released && !c.PreDrain && left != nil && !left.want.drainingOrDrained() {
			return true
		}
	}
	return slices.ContainsFunc(p.nodes, func(n *worker) bool {
		return n.want.DrainState == DrainState{} && n.DrainState != DrainState{} && !n.Refused
	})
}
