// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"slices"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// Snapshot records the nodes before a scale, to compare them with those after it.
func Snapshot(nodes []Node) (seen []removal.NodeSnapshot) {
	for _, n := range nodes {
		seen = append(seen, n.snapshot())
	}
	return seen
}

func (n Node) snapshot() removal.NodeSnapshot {
	return removal.NodeSnapshot{
		UID: n.UID, Created: n.Created.Unix(), Schedulable: !n.Cordoned, Undrained: n.Cordoned && n.Ready && !n.drained(),
		Name: n.Name, Batch: n.Batch, Position: n.Position,
	}
}

// contains reports whether the Node is one of those that were seen.
func contains(seen []removal.NodeSnapshot, n Node) bool {
	return slices.ContainsFunc(seen, func(s removal.NodeSnapshot) bool { return s.UID == n.UID })
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
		return cmp.Or(p.Order.Sign(a.batch-b.batch), shown.Compare(x, y), guess.Compare(x, y), a.cost()-b.cost(),
			removal.Newest.Sign(removal.ByAge.Compare(x, y)), removal.Newest.Sign(removal.ByName.Compare(x, y)))
	})
	return line
}

// alike reports whether nothing that the portal has shown tells which of the two nodes it removes first.
func (p *planner) alike(a, b *worker) bool {
	return a.batch == b.batch && p.Evidence.Compare(a.snapshot(), b.snapshot()) == 0
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
