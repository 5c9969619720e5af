// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// podsAgain is how often the Pods of an autoscaled cluster are looked at. They are not watched: their number has no bound.
const podsAgain = 10 * time.Second

// freeze keeps the cluster autoscaler from choosing nodes that the portal would not remove. While there are more workers than the
// replicas ask for, all are frozen: a node that stays is idle for a moment, and would be chosen too. Otherwise those are frozen
// that come after a node which must not go, in the order in which the portal removes them; and all if there is no order.
func (p *planner) freeze() {
	line := p.removalOrder()
	from := p.frozenFrom(line)
	for i, n := range line {
		switch {
		case n.ScaleDownSetByUser:
		case i >= from && !n.Frozen:
			p.add(Freeze, nil, n)
		case i < from && n.Frozen:
			p.add(Unfreeze, nil, n)
		}
	}
	if p.Autoscaled && p.Order != Random {
		p.lookAgain(podsAgain)
	}
}

// frozenFrom returns the index of the first node in the line that the autoscaler must not choose.
func (p *planner) frozenFrom(line []*place) int {
	if !p.Autoscaled {
		return len(line)
	}
	if p.Order == Random || p.surplus > 0 || p.Operation == RemovingNodes || p.Operation == ReplacingNodes {
		return 0
	}
	if i := slices.IndexFunc(line, func(n *place) bool { return n.Pinned }); i >= 0 {
		return i
	}
	return len(line)
}
