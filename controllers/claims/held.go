// SPDX-License-Identifier: Apache-2.0

package claims

import "slices"

// decideHeld sends as many of the Machines that are being deleted on to be drained as there are workers too many; the
// others are released at once (decideGone), for a MachineSet makes no replacement before they are gone. It returns the
// Machines that are on their way out, and the free nodes that are not meant for one of them.
//
// Which node goes is the portal's choice; the newest are expected to (order.go). So those that are to be drained take
// those nodes first: a Machine that holds one and stays moves over to the leaving Machine's node, which for a moment both
// share, and in the next pass the leaving Machine takes the node that has become free.
func (v View) decideHeld(p *Plan, claims []claim, free []Node) (leaving map[string]bool, left []Node) {
	surplus := v.surplus()
	leaving = map[string]bool{}
	victims := v.victims(min(surplus, v.certain()))
	for _, state := range []State{Drained, Draining, Held} {
		for i := len(claims) - 1; i >= 0 && surplus > 0; i-- {
			c := claims[i]
			if c.state != state || c.node == nil {
				continue
			}
			victims = slices.DeleteFunc(victims, func(n Node) bool { return n.UID == c.node.UID && !c.shared })
			if state != Held {
				leaving[c.Name] = true
				surplus--
			}
		}
	}
	surplus = min(surplus, v.certain()-len(leaving))
	for _, c := range v.heldInLine(claims) {
		if surplus <= 0 {
			break
		}
		var goes bool
		if goes, victims, free = v.sendHeld(p, c, claims, victims, free); goes {
			leaving[c.Name] = true
			surplus--
		}
	}
	return leaving, free
}

// heldInLine returns the held claims in the order in which they are to go: those on nodes that are expected to go first,
// then the youngest; of two on the same node only one.
func (v View) heldInLine(claims []claim) (held []claim) {
	going := map[string]bool{}
	for _, c := range claims {
		if c.node != nil && (c.state == Drained || c.state == Draining) {
			going[c.node.UID] = true
		}
	}
	for _, onVictim := range []bool{true, false} {
		for i := len(claims) - 1; i >= 0; i-- {
			c := claims[i]
			if c.state != Held || c.node == nil || going[c.node.UID] || onVictim != (!c.shared && isVictim(v, c)) {
				continue
			}
			held = append(held, c)
			going[c.node.UID] = true
		}
	}
	return held
}

// surplus is how many workers too many there are. While the portal adds nodes, which come without being Ready, those
// that are not Ready do not count: they may also be the Node objects of machines that are long gone. What an adopted cluster
// has too many is not ours to remove.
func (v View) surplus() int {
	if v.DownRefused || v.Adopted {
		return 0
	}
	count := len(v.Nodes)
	if v.Operation == AddsNodes {
		for _, n := range v.Nodes {
			if !n.Ready {
				count--
			}
		}
	}
	return count - v.Desired
}

// certain is how many workers too many there are for certain: of more Nodes than the portal was asked for, some may be
// gone already. What drains waits to see; nothing new is drained for them.
func (v View) certain() int {
	if v.Size < 0 {
		return len(v.Nodes) - v.Desired
	}
	return min(len(v.Nodes), v.Size) - v.Desired
}

// victims are the nodes that are expected to go when so many are to go.
func (v View) victims(count int) []Node {
	nodes := v.inLine()
	return nodes[:max(0, min(count, len(nodes)))]
}

// sendHeld sends one held Machine on its way out: to be drained if it is on a node that is expected to go, else to such
// a node first. It reports whether the Machine is on its way out.
func (v View) sendHeld(p *Plan, c claim, claims []claim, victims, free []Node) (bool, []Node, []Node) {
	if v.Operation != Idle {
		return !c.shared, victims, free // which nodes there are, and which go first, is seen when it has finished
	}
	if c.shared && c.node.Doomed {
		p.add(Uncordon, c.Name, c.node) // it stays, with the other Machine
	}
	if c.shared || !isVictim(v, c) {
		if moves, rest, left := v.toVictim(p, c, claims, victims, free); moves {
			return true, rest, left
		}
	}
	switch {
	case c.shared:
		return false, victims, free // its node stays with the other Machine: this one is released
	case c.NodeRef == c.node.Name:
		p.add(StartDrain, c.Name, c.node)
	case c.NodeRef != "" && c.ProviderID == c.ClaimProviderID:
		p.add(PointAtNode, c.Name, c.node)
	}
	return true, victims, free
}

// toVictim brings a held Machine nearer to a node that is expected to go, if it can have one.
func (v View) toVictim(p *Plan, c claim, claims []claim, victims, free []Node) (bool, []Node, []Node) {
	for i, victim := range victims {
		if victim.Created.Equal(c.node.Created) && !c.shared {
			continue // its own node is as likely to go
		}
		rest := slices.Delete(slices.Clone(victims), i, i+1)
		if j := slices.IndexFunc(free, func(n Node) bool { return n.UID == victim.UID }); j >= 0 {
			v.name(p, c.Name, &victim)
			p.add(Swap, c.Name, &victim)
			return true, rest, slices.Delete(slices.Clone(free), j, j+1)
		}
		if holder := liveOn(claims, victim); holder != nil && !c.shared {
			v.bindTo(p, *holder, *c.node) // Ready or not: one of the two stays
			holder.shared = true          // it moves: nobody takes its node over in this pass
			return true, rest, free
		}
	}
	return false, victims, free
}

// isVictim tells whether the claim's node is among those that are expected to go, if all that are too many go.
func isVictim(v View, c claim) bool {
	return slices.ContainsFunc(v.victims(min(v.surplus(), v.certain())), func(n Node) bool { return n.UID == c.node.UID })
}

// liveOn returns the one Machine that is not being deleted and holds the node alone.
func liveOn(claims []claim, node Node) *claim {
	for i, c := range claims {
		if c.node != nil && c.node.UID == node.UID && c.state == Bound && !c.shared {
			return &claims[i]
		}
	}
	return nil
}
