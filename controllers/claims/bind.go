// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// settleTime is left to a new node to become Ready before a Machine is bound to it as it is.
const settleTime = time.Minute

// bind gives nodes to Machines that have none: free ones first, to Machines that are up to date first. What is left of
// the Machines is beyond the number of workers; those take over the nodes of outdated Machines. It returns the nodes
// that stay free.
func (v View) bind(p *Plan, claims []claim, free []Node) []Node {
	settled := v.Operation == Idle || v.Operation == AddsNodes
	var waiting []claim
	for _, c := range claims {
		switch {
		case c.Deleting, c.Foreign && c.state == Unbound: // core deletes it, now or soon
		case c.state == Bound:
			v.mend(p, c)
		case c.state == Unbound || c.state == Lost:
			waiting = append(waiting, c)
		}
	}
	slices.SortStableFunc(waiting, func(a, b claim) int { return order(a.Outdated, b.Outdated) })
	var without []claim
	for _, c := range waiting {
		i := v.choose(c, free)
		if i < 0 || !settled {
			without = append(without, c)
			if c.state == Lost {
				p.Lost = append(p.Lost, c.ClaimNode)
			}
			continue
		}
		v.bindTo(p, c, free[i])
		free = slices.Delete(slices.Clone(free), i, i+1)
	}
	free = v.separate(p, claims, free, settled)
	v.awaitReady(p, free)
	p.Unbound = len(without)
	if settled {
		v.takeOver(p, claims, without)
	}
	return free
}

// separate gives a node of its own to the younger of two Machines that are on one node and not because one takes it over
// from the other: a swap may end so when the Machine that it was for is wanted no more.
func (v View) separate(p *Plan, claims []claim, free []Node, settled bool) []Node {
	first := map[string]claim{}
	for _, c := range claims {
		if c.state != Bound || !settled {
			continue
		}
		other, found := first[c.node.UID]
		if !found || other.Outdated != c.Outdated {
			first[c.node.UID] = c
			continue
		}
		if i := v.choose(c, free); i >= 0 {
			v.bindTo(p, c, free[i])
			free = slices.Delete(slices.Clone(free), i, i+1)
		}
	}
	return free
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// choose picks a free node: one that the Machine's own MachineSet or MachineDeployment held before, else the oldest that
// nobody of another did, else the oldest; Ready ones before others.
func (v View) choose(c claim, free []Node) int {
	best, rank := -1, 0
	for i, n := range free {
		if !n.Ready && (v.Operation != Idle || v.Now.Sub(n.Created) < settleTime) {
			continue // on its way, or the Node object of a machine that is gone
		}
		r := 1
		switch {
		case n.LastSet != "" && v.ownerOf(n.LastSet) == c.Owner:
			r = 3
		case n.LastSet == "":
			r = 2
		}
		if n.Ready {
			r += 3
		}
		if r > rank {
			best, rank = i, r
		}
	}
	return best
}

// awaitReady looks again when free nodes have had their time to become Ready.
func (v View) awaitReady(p *Plan, free []Node) {
	for _, n := range free {
		if !n.Ready && v.Operation == Idle {
			p.lookAgain(settleTime - v.Now.Sub(n.Created))
		}
	}
}

func (v View) ownerOf(set string) string {
	for _, m := range v.Machines {
		if m.Set == set {
			return m.Owner
		}
	}
	return ""
}

// takeOver lets up-to-date Machines beyond the number of workers, as a rolling update makes them, take over the nodes
// of outdated Machines of the same MachineDeployment: the outdated one is marked, the new one bound to the same node; the
// MachineDeployment then sees one too many, deletes the marked one, which is held and released.
func (v View) takeOver(p *Plan, claims, without []claim) {
	beyond, pairs := -v.Desired, 0
	for _, c := range claims {
		if !c.Deleting && !c.Foreign {
			beyond++
			if c.shared && !c.Outdated {
				pairs++
			}
		}
	}
	for _, c := range without {
		if !v.Takeovers || beyond-pairs <= 0 || c.Outdated {
			continue
		}
		old := outdatedOf(claims, c.Owner)
		if old == nil {
			continue
		}
		if !old.Marked {
			p.add(Mark, old.Name, nil)
		}
		old.shared = true // taken, for the rest of this pass
		v.bindTo(p, c, *old.node)
		p.Unbound--
		pairs++
	}
}

// outdatedOf picks an outdated Machine whose node can be taken over: one that is marked already, else the oldest.
func outdatedOf(claims []claim, owner string) *claim {
	var found *claim
	for i, c := range claims {
		if c.state != Bound || !c.Outdated || c.Owner != owner || c.shared || !c.node.Ready {
			continue
		}
		if found == nil || c.Marked && !found.Marked {
			found = &claims[i]
		}
	}
	return found
}

// restore makes nodes schedulable again that were being drained for Machines which nobody deletes any more: they were moved or
// restored. That they were to be drained shows in their hooks; core drains by name. While the portal removes nodes it waits: these
// may be among them.
func (v View) restore(p *Plan, claims []claim) {
	for _, c := range claims {
		if !c.wasDraining() || v.Operation == RemoveNodes {
			continue
		}
		if node := v.named(c.ClaimNode); node != nil && node.Cordoned {
			p.add(Uncordon, c.Name, node)
		}
		p.addHooks(c)
	}
}

// wasDraining tells whether the Machine has the hooks of one that is being drained, and is not.
func (c claim) wasDraining() bool { return !c.Deleting && !c.PreDrain && c.PreTerminate }

// mend completes a bind that was interrupted, or whose Machine still points at the node it had before.
func (v View) mend(p *Plan, c claim) {
	if c.wasDraining() && v.Operation == RemoveNodes {
		return // see restore
	}
	p.addHooks(c)
	if c.NodeRef != "" && c.NodeRef != c.node.Name && c.ProviderID == c.ClaimProviderID {
		p.add(PointAtNode, c.Name, c.node)
	}
}

func (p *Plan) addHooks(c claim) {
	if (!c.PreDrain || !c.PreTerminate) && !p.has(AddHooks, c.Name) {
		p.add(AddHooks, c.Name, nil)
	}
}

func (v View) bindTo(p *Plan, c claim, node Node) {
	p.addHooks(c)
	if !node.Ready && !c.Shielded && !c.Unhealthy {
		p.add(Shield, c.Name, nil)
	}
	v.name(p, c.Name, &node)
	p.add(Bind, c.Name, &node)
}

func (v View) name(p *Plan, machine string, node *Node) {
	if node.ProviderID == "" {
		node.ProviderID = ProviderID(v.ClusterID, node.Name)
		p.add(NameNode, machine, node)
	}
}
