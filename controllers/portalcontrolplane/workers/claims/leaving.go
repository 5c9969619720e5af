// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// chooseLeaving decides which nodes are removed next. It takes the first ones in the order in which the portal is expected to
// remove them, as many as are surplus and as no live Machine needs. While an upgrade replaces nodes, it chooses none.
func (p *planner) chooseLeaving() {
	count := 0
	for _, n := range p.workers {
		if p.Activity != AddingNodes || n.Ready { // nodes that the portal is adding join before they are Ready
			count++
		}
	}
	p.settled = p.Activity == Idle && !p.moreNodesThanSize()
	if p.Adopted {
		return
	}
	count = min(count, p.maxWorkers())
	p.surplus = count - p.Desired
	if p.Activity == ReplacingNodes {
		return
	}
	line := p.removalOrder()
	p.chooseFrom(line)
	p.chooseInstead(line)
}

// chooseFrom chooses the nodes to remove next from the front of the line. A node is chosen if fewer than surplus nodes come
// before it. It may be unknown which of the nodes without a Machine that are not Ready still exist. Such nodes do not count as
// coming before, and each one reduces the surplus, so a node is chosen only if it may have to be removed.
func (p *planner) chooseFrom(line []*worker) {
	spare := -p.needed()
	for _, n := range p.workers {
		spare += oneIf(p.usable(n))
	}
	before, doubtful := 0, 0
	for _, n := range line {
		count := min(len(p.workers)-doubtful, p.maxWorkers())
		spare -= oneIf(p.usable(n))
		if before >= count-p.Desired {
			return
		}
		if spare < 0 {
			p.partial = true
			return
		}
		n.leaving = true
		p.leaving = append(p.leaving, n)
		before += oneIf(p.usable(n))
		doubtful += oneIf(!p.usable(n))
	}
}

// maxWorkers is the largest number of workers that the portal may run.
func (p *planner) maxWorkers() int {
	if p.Size < 0 {
		return len(p.workers)
	}
	return max(p.Size, p.readyCount())
}

// usable reports whether a Machine can use the node, because its machine exists.
func (p *planner) usable(n *worker) bool { return n.Ready || n.inUse() || !p.SizeUncertain }

// needed is how many nodes the live Machines and the pool need. Two Machines that share a node, because one takes it over from
// the other, need one.
func (p *planner) needed() (n int) {
	n = p.poolReplicas()
	for _, c := range p.claims {
		if !c.Deleting && !c.mismatched() {
			n++
		}
	}
	for _, worker := range p.workers {
		n -= max(0, len(worker.live)-1)
	}
	return n
}

// moreNodesThanSize reports whether more Nodes exist than the portal is known to run. Either some of them are gone, which shows
// soon, or nodes were added outside of the provider, which are counted later (Plan.Counted).
func (p *planner) moreNodesThanSize() bool {
	return p.Size >= 0 && !p.SizeUncertain && len(p.workers) > p.Size
}

// removalSeen reports whether the portal has already removed as many nodes as it was asked to, although its job still runs.
func (p *planner) removalSeen() bool {
	return p.Activity == RemovingNodes && len(p.Nodes) <= p.Target
}

// undoAbortedDrains makes nodes schedulable that were being drained for Machines which are not being deleted any more, because
// they were moved or restored. It waits while the portal removes nodes, because these may be among them.
func (p *planner) undoAbortedDrains() {
	for _, c := range p.claims {
		if !c.wasDraining() || p.Activity == RemovingNodes {
			continue
		}
		if node := p.nodeNamed(c.ClaimNode); node != nil && node.Cordoned {
			node.want.DrainState = DrainState{}
			node.why.add("Machine %s is not being deleted any more", c.Name)
		}
		c.why.add("it is not being deleted any more")
		c.want.PreDrain, c.want.PreTerminate = true, true
	}
}

// moveHeld gives each held Machine one of the nodes that are removed next. If its own node is one of them, core may drain it. If
// not, the Machine takes another one that is, if the same rules count for its drain: core drains by those of the held Machine. A
// free node is taken at once. A node of a live Machine is taken after that Machine has moved to the held Machine's node. Both
// share that node for a moment. If no such Machine is held, the live Machine moves to a free node, and the provider drains the
// node that it leaves.
func (p *planner) moveHeld() {
	if !p.settled {
		return
	}
	for _, n := range p.leaving {
		if n.drainingOrDrained() && !n.inUse() || len(n.departing) > 0 {
			p.drainHeld(n)
			continue
		}
		holder, c := n.holder(), p.heldElsewhere(n)
		switch {
		case !n.inUse() && c != nil && !n.withheld:
			if c.at.TaintedByAutoscaler && c.at.inUse() {
				c.at.want.DrainState = DrainState{}
				c.at.why.add("it stays, with another Machine")
			}
			c.why.add("%s", p.goes(n))
			p.moveTo(c, n)
			c.at.awaited = true
		case holder == nil || n.taken:
		case c != nil:
			p.bindTo(holder, c.at, "%s. Machine %s, which is being deleted, gets Node %s", p.goes(n), c.Name, n.Name) // Ready or not, one of the two stays
			n.awaited, c.at.awaited = true, true
		default:
			p.vacate(n, holder)
		}
	}
}

// drainHeld lets core drain the node if one Machine that is being deleted is the only one on it.
func (p *planner) drainHeld(n *worker) {
	if n.inUse() || n.drainedByCore() {
		return
	}
	for _, c := range n.departing {
		switch {
		case c.state != stateHeld || c.passedPreDrain():
		case c.NodeRef == n.Name:
			c.want.PreDrain = false
			c.why.add("%s", p.goes(n))
			return
		default:
			c.pointAtNode()
		}
	}
}

// heldElsewhere returns a held Machine whose node is not removed next, the youngest first, and which may take the node: its
// MachineDeployment is that of the node's holder or, if the node is free, its rules for drains are those that are noted there. Its
// own node may be shared if the Machine can leave it at once.
func (p *planner) heldElsewhere(n *worker) *claim {
	holder := n.holder()
	for _, c := range slices.Backward(p.claims) {
		if c.state != stateHeld || c.at == nil || c.passedPreDrain() || c.at.awaited || c.at.leaving && !c.at.inUse() {
			continue
		}
		if holder == nil && c.DrainRules == n.DrainRules || holder != nil && c.Owner == holder.Owner && !c.at.inUse() && len(c.at.departing) == 1 {
			return c
		}
	}
	return nil
}

// vacate moves the live Machine of a node that is removed next to a node that stays, if one is free. A drained node is made
// schedulable first.
func (p *planner) vacate(n *worker, holder *claim) {
	for _, drained := range []bool{false, true} {
		for _, other := range p.workers {
			if other.leaving || other.withheld || !other.free() || other.drainingOrDrained() != drained || !p.usable(other) {
				continue
			}
			if drained && !other.instead {
				other.want.DrainState = DrainState{}
				other.why.add("it stays, and Machine %s takes it", holder.Name)
			}
			p.bindTo(holder, other, "%s", p.goes(n))
			n.awaited = true
			return
		}
	}
}

// uncordonStaying makes nodes schedulable that were drained, or are being drained by the provider, and stay after all. While the
// portal removes nodes, it waits until they are seen to be gone. A node that is not Ready may be gone itself.
func (p *planner) uncordonStaying() {
	if p.nodesChanging() {
		return
	}
	for _, n := range p.workers {
		if n.drainingOrDrained() && n.Ready && !n.leaving && !n.instead && len(n.departing) == 0 && !n.taken && !p.namedByDeleting(n) {
			n.want.DrainState = DrainState{}
			n.why.add("it stays: %s", p.wanted())
			n.taken = true // in this pass. The next one may bind a Machine to it
		}
	}
}

// drainFree takes a step of the provider's own drain of the nodes that are removed next and that no Machine claims. A drained
// node that was made schedulable in the meantime is drained again.
func (p *planner) drainFree() {
	for _, n := range p.leaving {
		started := !n.DrainStarted.IsZero()
		if !n.free() || n.awaited || p.removable(n) || !p.settled && !started {
			continue
		}
		p.write(Write{Step: DrainNode, Node: Change[Node]{n.Node, n.Node}, Why: "no Machine has it, and " + p.goes(n)})
		p.requeueAfter(evictInterval)
	}
	p.drainInstead()
}

// removable reports whether the portal may remove the node without harm. It is drained, or it has no Machine, is cordoned, and
// has not been Ready for so long that Kubernetes has evicted its Pods.
func (p *planner) removable(n *worker) bool {
	if n.drained() {
		return true
	}
	return !n.Ready && n.Cordoned && n.free() && p.isLost(n.Node)
}

// evictInterval is the time between two steps of the provider's own drain: Pods are not watched.
const evictInterval = 5 * time.Second

// leftOverTime is how long a Node must not be Ready to count as lost. By then a cloud controller has deleted it, a Node that was
// only briefly away is back, and Kubernetes has evicted its Pods.
const leftOverTime = 5 * time.Minute

// deleteLeftOver deletes the Node objects of drained machines that the portal has removed. Core deletes a Node object only with
// its Machine, and the Machine of a drained node is gone already. A Node whose machine may be running is never deleted: it must
// be drained and not Ready for a while, and as many other Nodes must be Ready as the portal runs.
func (p *planner) deleteLeftOver() {
	if p.Activity != Idle || p.Size < 0 || p.SizeUncertain || p.readyCount() < p.Size {
		return
	}
	for _, n := range p.Nodes {
		if !n.Ready && !n.Drained.IsZero() && !p.claimed(n) && p.isLost(n) {
			p.write(Write{Step: DeleteNode, Node: Change[Node]{Seen: n}, Why: "it was drained and is not Ready, and as many other Nodes are Ready as the portal runs workers"})
		}
	}
}

// namedByDeleting reports whether a Machine that is being deleted still names the node. Core may then drain it again.
func (p *planner) namedByDeleting(n *worker) bool {
	return slices.ContainsFunc(p.claims, func(c *claim) bool { return c.Deleting && c.NodeRef == n.Name })
}

// claimed reports whether a Machine holds the Node, or shows it.
func (p *planner) claimed(n Node) bool {
	return slices.ContainsFunc(p.claims, func(c *claim) bool {
		return c.NodeRef == n.Name || c.ClaimNodeUID == n.UID && !IsReleased(c.ClaimProviderID)
	})
}
