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

// ask decides whether to ask the portal for another number of workers, never for fewer than desired. Nodes are added at once. Fewer workers are
// asked for by decideDown or, if it is uncertain how many the portal runs, by makeCertain.
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
	case p.Activity != Idle: // the answer was lost. This number is right whether or not the portal acted on the request
		p.request(max(p.Desired, p.Target))
	case p.Unasked && p.allStay():
	case p.Desired > size && p.Desired >= len(p.workers), p.SizeUncertain && p.Desired > len(p.workers):
		p.request(p.Desired)
	case p.SizeUncertain:
		p.makeCertain()
	case p.Desired < size && !p.moreNodesThanSize():
		p.decideDown(size)
	}
}

// sizeCertain reports whether an uncertain size is certain now: exactly the desired number of workers is Ready, and no other Node
// exists.
func (p *planner) sizeCertain() bool {
	return p.SizeUncertain && p.Activity == Idle && !p.AnswerLost && len(p.Nodes) == p.Desired && p.readyCount() == p.Desired
}

// allStay reports whether a portal that no object asks for workers need not be asked: all that exist stay, however many that are.
func (p *planner) allStay() bool {
	unclear := slices.ContainsFunc(p.workers, func(n *worker) bool { return !p.usable(n) })
	return !p.AnswerLost && (len(p.leaving) == 0 || unclear)
}

func (p *planner) request(size int) {
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

// decideDown asks for fewer workers, if possible for all of the surplus in one request. These have to hold, and those of requestFewer:
//
//   - The nodes at the front of the line are drained or lost, and no Machine has them (removableInOrder). A drain that blocks holds those
//     behind it.
//   - They are all that leave. Or one has waited joinTime for others that are still being drained, or whose Machines core has yet to delete.
func (p *planner) decideDown(size int) {
	count, complete, waited := p.removableInOrder()
	enough := complete || waited && (p.Order != removal.Random || count == len(p.leaving))
	if count > 0 && enough {
		p.requestFewer(max(p.Desired, size-count), size, count)
	}
}

// makeCertain asks for the desired number if the size is uncertain, because it makes the size certain, even if nothing is left to remove.
// All nodes that leave are removable. Those of requestFewer have to hold too.
func (p *planner) makeCertain() {
	count, complete, _ := p.removableInOrder()
	if complete || p.drainedOrLost() {
		size := min(len(p.workers), p.readyCount()+1) // to ask for one fewer adds no nodes
		p.requestFewer(p.Desired, size, count)
	}
}

// requestFewer asks for this number of workers, where the portal runs size, and the first count nodes are removable. These have to hold:
//
//   - No node that stays has yet to be made schedulable (uncordonPending).
//   - Where it is a guess which node goes, those that may go instead are drained too, or insteadTime is over (waitsForInstead).
//
// A request removes only the nodes that go for sure. If that is none, or the order is assumed, it removes one, so that a wrong guess costs no
// more than that node. The next request follows when the nodes were compared (learn).
func (p *planner) requestFewer(to, size, count int) {
	sure := p.sure(count)
	switch guessed := p.Order != removal.Random && (sure < count || p.OrderAssumed); {
	case p.uncordonPending():
		return
	case !guessed, count == len(p.workers), to >= len(p.workers): // the order is known, or makes no difference
	case sure == 0 && p.waitsForInstead(count):
		return
	case p.OrderAssumed:
		to = max(to, size-1)
	default:
		to = max(to, size-max(1, sure))
	}
	p.request(to)
}

// sure returns how many of the first count nodes the portal removes before all others. Where one of them and the first of the others are
// alike, it may remove either, unless every node that may go instead is drained too.
func (p *planner) sure(count int) int {
	if count == len(p.leaving) && len(p.instead) > 0 && !slices.ContainsFunc(p.instead, func(n *worker) bool { return !p.removable(n) }) {
		return count
	}
	for count > 0 && count < len(p.line) && p.alike(p.line[count-1], p.line[count]) {
		count--
	}
	return count
}

// drainedOrLost reports whether a request for the desired number does no harm, although live Machines need more nodes: a roll-out may wait for
// Machines whose nodes are gone. Every node that would be removed is drained, or has a Machine and has not been Ready for so long that
// Kubernetes has evicted its Pods.
func (p *planner) drainedOrLost() bool {
	first := p.line[:max(0, len(p.workers)-p.Desired)]
	return !slices.ContainsFunc(first, func(n *worker) bool {
		return !p.removableNow(n) && (n.Ready || !n.inUse() || !p.isLost(n.Node))
	})
}

// waitsForInstead reports whether a request waits until all nodes that leave, and those that may go instead, are drained.
func (p *planner) waitsForInstead(count int) bool {
	if p.DrainPossible || len(p.instead) == 0 {
		return p.DrainPossible
	}
	last := slices.MaxFunc(p.leaving, func(a, b *worker) int { return a.Drained.Compare(b.Drained) })
	return count < len(p.leaving) || !p.hasElapsed(last.Drained, insteadTime)
}

// removableInOrder returns how many nodes at the front of the removal order can be removed now, whether these are all that leave, and
// whether one of them has waited joinTime for others.
func (p *planner) removableInOrder() (count int, complete, waited bool) {
	for _, n := range p.leaving {
		if !p.removableNow(n) {
			return count, false, waited
		}
		count++
		if p.hasElapsed(n.Drained, joinTime) {
			waited = true
		}
	}
	return count, !p.partial, waited
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
