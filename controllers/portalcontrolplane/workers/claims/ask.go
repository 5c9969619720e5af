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

// ask decides whether to ask the portal for another number of workers, never for fewer than desired. It does not ask
//
//   - while an operation runs. If its answer was lost, the same is asked for again after a while (MayResend), without another look at the nodes;
//   - if the Nodes show that a lost request was carried out (Reached), or how many workers run (SizeCertain);
//   - if no object asks for workers, and none of them is drained (allStay).
//
// Otherwise changeSize or, if it is uncertain how many workers the portal runs, makeCertain decides, and for fewer workers requestFewer.
func (p *planner) ask() {
	p.plan.Reached = p.AnswerLost && p.scaleReached()
	p.plan.SizeCertain = p.sizeCertain()
	switch {
	case p.plan.Reached, p.plan.SizeCertain, p.Activity != Idle && !p.MayResend:
	case p.Activity != Idle: // the answer was lost. This number is right whether or not the portal acted on the request
		p.request(max(p.Desired, p.Target))
	case p.Unasked && p.allStay():
	case p.SizeUncertain:
		p.makeCertain()
	default:
		p.changeSize()
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

// changeSize asks for the desired number. Nodes are added at once. For fewer workers, if possible for all of the surplus in one request, these
// have to hold, and those of requestFewer:
//
//   - No more workers exist than the portal was asked for. Otherwise they are counted first.
//   - The nodes at the front of the line are drained or lost, and no Machine has them (removableInOrder). A drain that blocks holds those
//     behind it.
//   - They are all that leave. Or one has waited joinTime for others that are still being drained, or whose Machines core has yet to delete. A
//     portal without an order is asked for all that leave.
func (p *planner) changeSize() {
	size := p.Size
	if size < 0 {
		size = len(p.workers)
	}
	if p.Desired > size && p.Desired >= len(p.workers) {
		p.request(p.Desired)
	}
	if p.Desired >= size || p.moreNodesThanSize() {
		return
	}
	count, complete, waited := p.removableInOrder()
	enough := complete || waited && (p.Order != removal.Random || count == len(p.leaving))
	if count > 0 && enough {
		p.requestFewer(max(p.Desired, size-count), size, count)
	}
}

// makeCertain asks for the desired number if the size is uncertain, because it makes the size certain, even if nothing is left to remove.
// Nodes are added at once. Otherwise all nodes that leave are removable. Or live Machines hold some of the surplus, but their nodes are lost
// (drainedOrLost). The conditions of requestFewer have to hold too.
func (p *planner) makeCertain() {
	going, complete, _ := p.removableInOrder()
	if surplus := max(0, len(p.workers)-p.Desired); !complete && p.drainedOrLost(surplus) {
		going, complete = surplus, true
	}
	switch {
	case p.Desired > len(p.workers):
		p.request(p.Desired)
	case complete:
		p.requestFewer(p.Desired, min(len(p.workers), p.readyCount()+1), going) // to ask for one fewer than this size adds no nodes
	}
}

// requestFewer asks for this number of workers, where the portal runs size. It is expected to remove the nodes at the front of the line, as many
// as are going, which is safe. These have to hold:
//
//   - No node that stays has yet to be made schedulable (uncordonPending).
//   - If it is a guess that these nodes go, and not others of their batch, the others are drained too. Unless the user wants them drained
//     (DrainPossible), insteadTime is enough (waitsForOthers).
//
// While it is a guess, a request removes one node, so that a wrong one costs no more than that node. Of a known order, it removes those that
// go for sure, or one. The next request follows when the nodes were compared (learn).
func (p *planner) requestFewer(to, size, going int) {
	if p.uncordonPending() {
		return
	}
	sure := p.sure(going)
	matters := p.Order != removal.Random && going > 0 && going < len(p.workers)
	if guess := matters && (sure < going || p.OrderAssumed); guess {
		if sure == 0 && p.waitsForOthers(going) {
			return
		}
		if sure == 0 || p.OrderAssumed {
			sure = 1
		}
		to = max(to, size-sure)
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

// drainedOrLost reports whether the first nodes of the line, so many, are drained, or have a Machine and have not been Ready for so long that
// Kubernetes has evicted their Pods. A roll-out may wait for such Machines forever.
func (p *planner) drainedOrLost(first int) bool {
	return !slices.ContainsFunc(p.line[:first], func(n *worker) bool {
		return !p.removableNow(n) && (n.Ready || !n.inUse() || !p.isLost(n.Node))
	})
}

// waitsForOthers reports whether a request waits for the drains of other nodes that the portal may remove instead of the first ones: of all that
// leave, and of those that may go instead. It does not wait for the latter longer than insteadTime after the last drain of one that leaves, or
// after their own drains have begun.
func (p *planner) waitsForOthers(going int) bool {
	if p.DrainPossible || going < len(p.leaving) || len(p.instead) == 0 {
		return p.DrainPossible || going < len(p.leaving)
	}
	var last time.Time
	for _, n := range slices.Concat(p.leaving, p.instead) {
		if n.instead && !n.drainingOrDrained() && !p.removable(n) && !n.Refused {
			return true // its drain is about to begin
		}
		for _, t := range []time.Time{n.DrainStarted, n.Drained} {
			if t.After(last) {
				last = t
			}
		}
	}
	return !p.hasElapsed(last, insteadTime)
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
		left := p.nodeNamed(c.Claim.Name)
		released := c.blockedByHooks() && IsReleased(c.want.Claim.ProviderID)
		if released && !c.PreDrain && left != nil && !left.want.drainingOrDrained() && !left.Refused {
			return true
		}
	}
	return slices.ContainsFunc(p.nodes, func(n *worker) bool {
		return n.want.DrainState == DrainState{} && n.DrainState != DrainState{} && !n.Refused
	})
}
