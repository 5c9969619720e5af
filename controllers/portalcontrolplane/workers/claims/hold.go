// SPDX-License-Identifier: Apache-2.0

package claims

import "slices"

// hold decides what becomes of Machines that are being deleted: core drains them, or they are let go. Then it makes nodes schedulable that stay
// after all.
func (p *planner) hold() {
	p.undoDrains()
	p.moveHeld()
	p.release()
	p.uncordonStaying()
}

// undoDrains makes nodes schedulable that were being drained for Machines which are not being deleted any more, because
// they were moved or restored. It waits while the portal removes nodes, because these may be among them.
func (p *planner) undoDrains() {
	for _, c := range p.claims {
		if !c.wasDraining() || p.Activity == RemovingNodes {
			continue
		}
		if node := p.nodeNamed(c.Claim.Name); node != nil && node.Cordoned {
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
	if !p.settled() {
		return
	}
	for _, n := range p.leaving {
		if n.drainingOrDrained() && !n.inUse() || len(n.departing) > 0 {
			p.drainHeld(n)
			continue
		}
		holder, c := n.holder(), p.heldElsewhere(n)
		switch {
		case !n.inUse() && c != nil && !p.withheld(n):
			if c.at.TaintedByAutoscaler && c.at.inUse() {
				c.at.want.DrainState = DrainState{}
				c.at.why.add("it stays, with another Machine")
			}
			c.why.add("%s", p.goes(n))
			p.moveTo(c, n)
		case holder == nil:
		case c != nil:
			p.bindTo(holder, c.at, "%s. Machine %s, which is being deleted, gets Node %s", p.goes(n), c.Name, n.Name) // Ready or not, one of the two stays
		default:
			if other := p.choose(holder); other != nil {
				p.bindTo(holder, other, "%s", p.goes(n))
			}
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
		if c.state != stateHeld || c.at == nil || c.differs(WriteClaim) || c.at.taken || c.at.leaving && !c.at.inUse() {
			continue
		}
		if holder == nil && c.DrainRules == n.DrainRules || holder != nil && c.Owner == holder.Owner && !c.at.inUse() && len(c.at.departing) == 1 {
			return c
		}
	}
	return nil
}

// release ends the claims of Machines that are being deleted. If the node stays, it does so at once, because a MachineSet creates
// no replacement before they are gone. Otherwise it waits until core has drained the node, which gets a mark.
func (p *planner) release() {
	for _, c := range p.claims {
		switch {
		case c.state == stateReleased:
			p.forgetNode(c)
		case !c.blockedByHooks():
		case c.at == nil && c.namesNoNode():
			c.want.PreDrain, c.want.PreTerminate = false, false
			c.why.add("it never had a Node")
		case c.at == nil:
			p.detach(c, "its Node is gone")
		case c.passedPreDrain():
			p.detach(c, "core went past the drain, because it knew no Node")
		case c.state == stateHeld:
			p.releaseHeld(c)
		default:
			p.releaseDrained(c)
		}
	}
}

// releaseDrained releases a Machine whose node core drains, or has drained. While it is undecided whether the node is removed, a
// drain goes on. A node that takes Pods again, because it was restored while core drained it, gets no mark. The provider drains it.
func (p *planner) releaseDrained(c *claim) {
	goes := !c.at.inUse() && (c.at.leaving || p.nodesChanging())
	switch {
	case goes && c.state == stateDraining:
		return
	case goes && c.state == stateDrained && !c.DrainSkipped && c.at.Cordoned:
		c.at.want.DrainState = DrainState{Cordoned: true, Drained: p.Now}
		c.at.why.add("core did it for Machine %s", c.Name)
		p.detach(c, "core has drained its Node")
		return
	}
	p.detach(c, "its Node is not among those that are removed next: "+p.wanted())
}

// releaseHeld releases a held Machine, unless it waits for a node that is removed next, or that is not decided yet.
func (p *planner) releaseHeld(c *claim) {
	goes := c.at.leaving && !c.at.drainedByCore() // core drains a node once
	swaps := c.at.taken                           // it gets a node that goes when the Machine that holds it has moved here
	undecided := p.surplus > 0 && !p.settled()
	if !c.differs(WriteClaim) && (c.at.inUse() || !goes && !swaps && !undecided) {
		p.detach(c, "its Node is not among those that are removed next: "+p.wanted())
	}
}

// detach releases a claim for the given reason.
func (p *planner) detach(c *claim, why string) {
	c.why.add("%s", why)
	c.noteDrainRules()
	c.want.Claim.ProviderID = ReleasedProviderID(p.ClusterID, c.Name)
}

// noteDrainRules notes the rules of a Machine on the node that it gives up. The provider drains the node by these rules if no other Machine
// comes.
func (c *claim) noteDrainRules() {
	if c.at == nil {
		return
	}
	if c.at.want.DrainRules != c.DrainRules && len(c.at.why) == 0 {
		c.at.why.add("Machine %s gives it up", c.Name)
	}
	c.at.want.DrainRules = c.DrainRules
}

// forgetNode removes the nodeRef of a released Machine once the Machine shows the providerID that no Node has. Core cannot
// drain the node for it any more then, so a node that stays is made schedulable. The hooks go last.
func (p *planner) forgetNode(c *claim) {
	left := p.nodeNamed(c.Claim.Name) // core drains by name
	switch {
	case c.ProviderID != c.Claim.ProviderID && (c.ProviderID != "" || c.Claim.UID != "" && !c.PortalMachineDeleted):
		// core has not copied the providerID yet. Even if the Machine shows none, core may be about to write the previous one
	case c.NodeRef != "":
		c.want.NodeRef = ""
		c.why.add("it was released")
	case left != nil && !left.drainingOrDrained() && !left.drainedByCore() && (left.TaintedByAutoscaler || left.Cordoned && !c.PreDrain && c.PreTerminate):
		left.want.DrainState = DrainState{}
		left.why.add("it stays, and Machine %s was released", c.Name)
	default:
		c.want.PreDrain, c.want.PreTerminate = false, false
		c.why.add("it was released, and names no Node")
	}
}

// uncordonStaying makes nodes schedulable that were drained, or are being drained by the provider, and stay after all. While the
// portal removes nodes, it waits until they are seen to be gone. A node that is not Ready may be gone itself.
func (p *planner) uncordonStaying() {
	if p.nodesChanging() {
		return
	}
	for _, n := range p.workers {
		if n.drainingOrDrained() && n.Ready && !n.leaving && !n.instead && !n.taken && !p.namedByDeleting(n) {
			n.want.DrainState = DrainState{}
			n.why.add("it stays: %s", p.wanted())
		}
	}
}

// namedByDeleting reports whether a Machine that is being deleted still names the node. Core may then drain it again.
func (p *planner) namedByDeleting(n *worker) bool {
	return slices.ContainsFunc(p.claims, func(c *claim) bool { return c.Deleting && c.NodeRef == n.Name })
}
