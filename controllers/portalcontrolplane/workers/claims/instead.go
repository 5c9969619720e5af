// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// noteBatches notes on the nodes which operation made them, and numbers the batches.
func (p *planner) noteBatches() {
	for i, n := range p.workers {
		if by := removal.MadeBy(n.snapshot(), p.Batch, p.Older); by != n.Batch {
			n.want.Batch = by
			n.why.add("operation %s made it", by)
		}
		p.plan.Present[i].Batch = n.want.Batch
	}
	numbers := removal.Batches(Snapshot(p.plan.Present))
	for _, n := range p.workers {
		n.batch = numbers[n.UID]
	}
}

// chooseInstead chooses the nodes that the portal may remove instead of those that leave: the other nodes of their batch, unless a removal
// has shown in which order the portal removes these. They are drained too if that is one node or a tenth of all, and leaves more than half
// of the nodes that stay to the Pods. They are schedulable again when the portal has chosen all: what one removal has shown may be chance.
// Otherwise the choice is a guess.
func (p *planner) chooseInstead(line []*worker) {
	rest := line[len(p.leaving):]
	if len(p.leaving) == 0 || p.partial && !p.DrainPossible {
		return
	}
	count := 0
	for count < len(rest) && p.mayGoInstead(rest[count]) {
		count++
	}
	switch few := count <= max(1, len(line)/10) && 2*count < len(rest); {
	case count == 0:
		return
	case p.DrainPossible && count == len(rest): // all nodes would be drained
		for _, n := range p.leaving {
			n.leaving = false
		}
		p.leaving, p.plan.AnyMayGo = nil, true
	case few, p.DrainPossible:
		p.instead = rest[:count]
	}
	for _, n := range p.instead {
		n.instead = true
	}
	p.plan.NeedsPositions = p.Order != removal.Random && p.Evidence.Within[removal.ByPosition] != removal.Random &&
		slices.ContainsFunc(rest[:count], func(n *worker) bool { return n.Position == 0 })
}

// mayGoInstead reports whether the portal may remove the node instead of the last one that leaves. If the user wants every such node drained,
// that is any node as long as the order is not known.
func (p *planner) mayGoInstead(n *worker) bool {
	last := p.leaving[len(p.leaving)-1]
	if p.Order == removal.Random || p.OrderAssumed && p.DrainPossible {
		return p.DrainPossible
	}
	return p.alike(last, n) || last.batch == n.batch && n.drained()
}

// prepareInstead notes, on the nodes that the portal may remove instead, the rules of their Machines for the drain.
func (p *planner) prepareInstead() {
	for _, n := range p.instead {
		for _, c := range n.live {
			if n.want.DrainRules != c.DrainRules {
				n.want.DrainRules = c.DrainRules
				n.why.add("%s", p.goesInstead(n))
			}
		}
	}
}

// drainInstead takes a step of the provider's own drain of the nodes that the portal may remove instead.
func (p *planner) drainInstead() {
	for _, n := range p.instead {
		if n.drained() || n.taken || len(n.departing) > 0 || !p.settled && n.DrainStarted.IsZero() {
			continue
		}
		p.write(Write{Step: DrainNode, Node: Change[Node]{n.Node, n.Node}, Why: p.goesInstead(n)})
		p.requeueAfter(evictInterval)
	}
}

// insteadTime is how long the portal is not asked because a node that it may remove instead is still being drained. Its Pods may find
// no room on the nodes that are left. Later the choice is a guess, as it is if there are many such nodes.
const insteadTime = 5 * time.Minute

// atOnce returns how many nodes one request may remove, if the first count nodes in the order of removal are drained: all, or fewer if the
// others are a matter of guess, at least 1. It is 0 if the request has to wait for the drains of other nodes.
func (p *planner) atOnce(count int) int {
	all := max(1, len(p.workers)) // a request that removes none need not wait
	if count == len(p.workers) || p.Order == removal.Random || count == 0 && !p.OrderAssumed {
		return all
	}
	line, certain := p.removalOrder(), count
	if count < len(p.leaving) || !p.insteadDrained() {
		for certain > 0 && certain < len(line) && p.alike(line[certain-1], line[certain]) {
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
