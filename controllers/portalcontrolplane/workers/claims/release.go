// SPDX-License-Identifier: Apache-2.0

package claims

import "slices"

// release ends the claims of Machines that are being deleted. If the node stays, it does so at once, because a MachineSet creates
// no replacement before they are gone. Otherwise it waits until core has drained the node, which gets a mark.
func (p *planner) release() {
	for _, c := range p.claims {
		switch {
		case c.state == stateReleased:
			p.forgetNode(c)
		case !c.blockedByHooks():
		case c.at == nil && c.namesNoNode() && !c.PortalMachineDeleted:
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
	goes := !c.at.inUse() && c.at.leaving
	switch {
	case c.state == stateDraining && (goes || p.nodesChanging()):
		return
	case c.state == stateDrained && !c.DrainSkipped && !c.at.inUse() && (goes || p.nodesChanging()) && c.at.Cordoned && !c.at.drained():
		c.at.want.DrainState = DrainState{Cordoned: true, Drained: p.Now}
		c.at.why.add("core has drained it for Machine %s", c.Name)
		p.detach(c, "core has drained its Node")
		return
	}
	p.detach(c, "its Node is not among those that are removed next: "+p.wanted())
}

// releaseHeld releases a held Machine, unless it waits for a node that is removed next, or that is not decided yet.
func (p *planner) releaseHeld(c *claim) {
	switch {
	case c.differs(WriteClaim), c.at.awaited && !c.at.inUse():
		// it is being moved to a node that is removed next
	case c.at.leaving && !c.at.inUse() && p.isFirstDeparting(c):
	case p.surplus > 0 && !p.settled && !c.at.inUse():
	default:
		p.detach(c, "its Node is not among those that are removed next: "+p.wanted())
	}
}

// isFirstDeparting reports whether the claim is the first of those that are being deleted on its node. Only one can be drained.
func (p *planner) isFirstDeparting(c *claim) bool {
	return c.at.departing[0] == c || !c.at.drainedByCore() && c.at.departing[0].state == stateHeld
}

// nodesChanging reports whether the portal is changing which nodes exist, or its last change is not visible yet.
func (p *planner) nodesChanging() bool {
	return p.Activity == ReplacingNodes || p.Activity == RemovingNodes && !p.removalSeen() || p.Activity == Idle && !p.settled
}

// noteDrainRules notes the rules of a Machine on the node that it gives up, unless another Machine stays on the node. The provider
// drains the node by these rules if no other Machine comes.
func (c *claim) noteDrainRules() {
	if c.at == nil || slices.ContainsFunc(c.at.live, func(other *claim) bool { return other != c }) {
		return
	}
	if c.at.want.DrainRules != c.DrainRules && len(c.at.why) == 0 {
		c.at.why.add("Machine %s gives it up", c.Name)
	}
	c.at.want.DrainRules = c.DrainRules
}

// detach releases a claim for the given reason.
func (p *planner) detach(c *claim, why string) {
	c.why.add("%s", why)
	c.noteDrainRules()
	c.want.ClaimProviderID = ReleasedProviderID(p.ClusterID, c.Name)
}

// forgetNode removes the nodeRef of a released Machine once the Machine shows the providerID that no Node has. Core cannot
// drain the node for it any more then, so a node that stays is made schedulable. The hooks go last.
func (p *planner) forgetNode(c *claim) {
	left := p.nodeNamed(c.ClaimNode) // core drains by name
	switch {
	case c.ProviderID != c.ClaimProviderID && (c.ProviderID != "" || c.ClaimNodeUID != "" && !c.PortalMachineDeleted):
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
