// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"time"
)

// readyTime is how long a new node may take to become Ready before a Machine is bound to it anyway.
const readyTime = time.Minute

// bind gives nodes that are free and stay to Machines without a node, up-to-date Machines first. The Machines that are left over
// take over the nodes of outdated Machines.
func (p *planner) bind() {
	var waiting []*claim
	for _, c := range p.claims {
		switch {
		case c.Deleting, c.mismatched():
			// core deletes it, now or when the template is reverted
		case c.state == stateBound:
			p.completeBind(c)
		default:
			waiting = append(waiting, c)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *claim) int { return oneIf(a.Outdated) - oneIf(b.Outdated) })
	var without []*claim
	for _, c := range waiting {
		if n := p.choose(c); n != nil {
			p.bindTo(c, n, "%s", c.without())
			continue
		}
		without = append(without, c)
		if c.state == stateLost {
			p.plan.LostNodes = append(p.plan.LostNodes, c.Claim.Name)
		}
	}
	p.rebind()
	p.awaitReady()
	p.plan.Unbound = len(without)
	p.takeOver(without)
}

// available reports whether the node stays, as far as is known, and is neither claimed nor needed otherwise. A node that may go instead of
// another one is available too: a portal that keeps refusing would otherwise leave a Machine without a node.
func (p *planner) available(n *worker) bool {
	return n.free() && !n.leaving && (!n.drainingOrDrained() || n.instead) && !p.withheld(n) && !p.reserved(n)
}

// choose returns a free node that stays, or nil. It prefers Ready nodes, then nodes that the Machine's own MachineDeployment held
// last, then nodes that were never held, then the oldest.
func (p *planner) choose(c *claim) *worker { return p.chooseOf(p.workers, c) }

// chooseOf returns the best of the nodes, or nil.
func (p *planner) chooseOf(nodes []*worker, c *claim) (best *worker) {
	if p.Activity == RemovingNodes && !p.removalSeen() {
		return nil
	}
	most := 0
	for _, n := range nodes {
		if !p.available(n) {
			continue
		}
		if !n.Ready && (p.Activity != Idle || p.SizeUncertain || p.Now.Sub(n.Created) < readyTime) {
			continue // still joining, or the Node object of a machine that is gone
		}
		score := 1 + 4*oneIf(n.Ready) + 8*oneIf(!n.instead)
		switch {
		case n.LastOwner == "":
			score++
		case n.LastOwner == c.Owner:
			score += 2
		}
		if score > most {
			best, most = n, score
		}
	}
	return best
}

// rebind gives a Machine whose node has not been Ready for long another node, if a Ready one is free. It also gives a node of
// its own to the younger of two Machines that share a node, unless one takes it over from the other. This ends a swap if the held
// Machine is kept after all.
func (p *planner) rebind() {
	if p.takesNodes() {
		return
	}
	for _, n := range p.workers {
		for i, c := range n.live {
			lost := !n.Ready && p.isLost(n.Node)
			if c.state != stateBound || !lost && (i == 0 || n.live[0].Outdated != c.Outdated) || c.differs(WriteClaim) {
				continue
			}
			if other := p.choose(c); other != nil && (other.Ready || !lost) {
				why := fmt.Sprintf("Node %s has not been Ready since %s", n.Name, n.NotReadySince.UTC().Format(time.RFC3339))
				if !lost {
					why = "it shared Node " + n.Name
				}
				p.bindTo(c, other, "%s", why)
			}
		}
	}
}

// awaitReady makes the plan again when free nodes have had their time to become Ready.
func (p *planner) awaitReady() {
	for _, n := range p.workers {
		if n.free() && !n.leaving && !n.Ready && p.Activity == Idle && !p.SizeUncertain {
			p.requeueAfter(readyTime - p.Now.Sub(n.Created))
		}
	}
}

// takeOver lets up-to-date Machines beyond the number of workers, as a rolling update makes them, take over the nodes of outdated
// Machines of the same MachineDeployment. The outdated one is annotated to be deleted first and the new one is bound to its node.
// The MachineDeployment then sees one Machine too many and deletes the annotated one, which is held and released.
func (p *planner) takeOver(without []*claim) {
	if p.takesNodes() {
		return
	}
	beyond := p.needed() - p.Desired
	for _, c := range without {
		old := p.outdatedOf(c.Owner)
		if beyond <= 0 || c.Outdated || old == nil {
			continue
		}
		old.want.DeleteFirst = true
		old.why.add("the up-to-date Machine %s takes its Node over", c.Name)
		p.bindTo(c, old.at, "it takes the Node of the outdated Machine %s over", old.Name)
		p.plan.Unbound--
		beyond--
	}
}

// outdatedOf returns an outdated Machine whose node can be taken over. It prefers one that is annotated to be deleted first, then
// the oldest.
func (p *planner) outdatedOf(owner string) (found *claim) {
	for _, c := range p.claims {
		if c.state != stateBound || !c.Outdated || c.Owner != owner || len(c.at.live) > 1 || c.at.taken || c.differs(WriteClaim) || !c.at.Ready {
			continue
		}
		if found == nil || c.DeleteFirst && !found.DeleteFirst {
			found = c
		}
	}
	return found
}

// without is why a Machine has no node.
func (c *claim) without() string {
	if c.state == stateLost {
		return fmt.Sprintf("its Node %s is gone", c.Claim.Name)
	}
	return "it had no Node"
}

// completeBind completes a bind that was interrupted, or whose Machine still names its previous node.
func (p *planner) completeBind(c *claim) {
	if c.wasDraining() && p.Activity == RemovingNodes {
		return // see undoDrains
	}
	c.want.PreDrain, c.want.PreTerminate = true, true
	c.pointAtNode()
	if c.want != c.Machine && len(c.why) == 0 {
		c.why.add("it has Node %s", c.at.Name)
	}
}

// pointAtNode makes the nodeRef name the node of the claim, if the Machine shows the claim and still names another node.
func (c *claim) pointAtNode() {
	if c.NodeRef != "" && c.NodeRef != c.at.Name && c.ProviderID == c.Claim.ProviderID {
		c.want.NodeRef = c.at.Name
		c.why.add("it has Node %s", c.at.Name)
	}
}

// bindTo binds a Machine to a node, with both hooks, for the given reason.
func (p *planner) bindTo(c *claim, n *worker, why string, args ...any) {
	c.why.add(why, args...)
	c.want.PreDrain, c.want.PreTerminate = true, true
	p.moveTo(c, n)
}

// moveTo writes the Node's identity into the claim. The Node gets a providerID if it has none.
func (p *planner) moveTo(c *claim, n *worker) {
	c.noteDrainRules()
	p.identify(n, "Machine %s gets it", c.Name)
	c.want.Claim = n.want.NodeID
	n.taken = true
}

// identify gives the Node a providerID if it has none.
func (p *planner) identify(n *worker, why string, args ...any) {
	if n.ProviderID == "" {
		n.want.ProviderID = n.idIn(p.ClusterID)
		n.why.add(why, args...)
	}
}
