// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"slices"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// leave decides which nodes are removed next. It takes the first ones in the order in which the portal is expected to
// remove them, as many as are surplus and as no live Machine needs. While an upgrade replaces nodes, it chooses none.
func (p *planner) leave() {
	count := 0
	for _, n := range p.workers {
		if p.Activity != AddingNodes || n.Ready { // nodes that the portal is adding join before they are Ready
			count++
		}
	}
	if p.Adopted {
		p.partial = count > p.Desired
		return
	}
	p.surplus = count - p.Desired
	if p.Activity == ReplacingNodes {
		return
	}
	p.chooseLeaving()
	p.chooseInstead()
}

// chooseLeaving chooses the nodes to remove next from the front of the line. A node is chosen if fewer than surplus nodes come
// before it. It may be unknown which of the nodes without a Machine that are not Ready still exist. Such nodes do not count as
// coming before, and each one reduces the surplus, so a node is chosen only if it may have to be removed.
func (p *planner) chooseLeaving() {
	spare := -p.needed()
	for _, n := range p.workers {
		spare += oneIf(p.usable(n))
	}
	before, doubtful := 0, 0
	for _, n := range p.line {
		count := min(len(p.workers)-doubtful, p.mayRun())
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

// chooseInstead chooses the nodes that the portal may remove instead of those that leave: the other nodes of their batch, unless a removal
// has shown in which order the portal removes these. They are drained too if that is one node or a tenth of all, and leaves more than half
// of the nodes that stay to the Pods, or with DrainPossible unless that is all. They are schedulable again when the portal has chosen all: what
// one removal has shown may be chance. Otherwise the choice is a guess.
func (p *planner) chooseInstead() {
	rest := p.line[len(p.leaving):]
	if len(p.leaving) == 0 {
		return
	}
	count := 0
	for count < len(rest) && p.mayGoInstead(rest[count]) {
		count++
	}
	switch few := count <= max(1, len(p.line)/10) && 2*count < len(rest); {
	case count == 0:
		return
	case p.DrainPossible && count == len(rest): // all nodes would be drained
		for _, n := range p.leaving {
			n.leaving = false
		}
		p.leaving, p.partial, p.plan.AnyMayGo = nil, true, true
	case few, p.DrainPossible:
		p.instead = rest[:count]
	}
	for _, n := range p.instead {
		n.instead = true
	}
	p.noteRules()
	p.plan.NeedsPositions = p.Order != removal.Random && p.Evidence.Within[removal.ByPosition] != removal.Random &&
		slices.ContainsFunc(rest[:count], func(n *worker) bool { return n.Position == 0 })
}

// mayGoInstead reports whether the portal may remove the node instead of the last one that leaves. A node of its batch that is drained stays so
// until it has chosen. If the user wants every such node drained, that is any node as long as the order is not known.
func (p *planner) mayGoInstead(n *worker) bool {
	last := p.leaving[len(p.leaving)-1]
	if p.Order == removal.Random || p.OrderAssumed && p.DrainPossible {
		return p.DrainPossible
	}
	return p.alike(last, n) || last.batchNumber == n.batchNumber && n.drained()
}

// noteRules notes, on the nodes that the portal may remove instead, the rules of their Machines for the drain.
func (p *planner) noteRules() {
	for _, n := range p.instead {
		for _, c := range n.live {
			if n.want.DrainRules != c.DrainRules {
				n.want.DrainRules = c.DrainRules
				n.why.add("%s", p.goesInstead(n))
			}
		}
	}
}

// removalOrder sorts the nodes in the order in which the portal is expected to remove them: by batch, and within a batch by what
// removals have shown, then by guess. Nodes that the guess does not tell apart either come in the order of what their removal costs.
func (p *planner) removalOrder() []*worker {
	line := slices.Clone(p.workers)
	shown, guess := p.Evidence, removal.Evidence{Within: map[removal.Key]removal.Order{}}
	for _, key := range []removal.Key{removal.ByPosition, removal.ByAge} {
		if shown.Within[key] == "" {
			guess.Within[key] = cmp.Or(p.Order, removal.Newest)
		}
	}
	if p.Order == removal.Random {
		shown, guess = removal.Evidence{}, removal.Evidence{}
	}
	slices.SortStableFunc(line, func(a, b *worker) int {
		x, y := a.snapshot(), b.snapshot()
		return cmp.Or(p.Order.Sign(a.batchNumber-b.batchNumber), shown.Compare(x, y), guess.Compare(x, y), a.cost()-b.cost(),
			removal.Newest.Sign(removal.ByAge.Compare(x, y)), removal.Newest.Sign(removal.ByName.Compare(x, y)))
	})
	return line
}

// alike reports whether nothing that the portal has shown tells which of the two nodes it removes first.
func (p *planner) alike(a, b *worker) bool {
	return a.batchNumber == b.batchNumber && p.Evidence.Compare(a.snapshot(), b.snapshot()) == 0
}

// cost ranks how much is lost if the node is removed next.
func (n *worker) cost() int {
	switch {
	case n.inUse() && n.Ready:
		return 6
	case n.inUse():
		return 5
	case n.drained(), !n.Ready && n.free():
		return 0
	case n.drainingOrDrained():
		return 1
	case n.drainedByCore():
		return 2
	case len(n.departing) > 0:
		return 3
	}
	return 4
}
