// SPDX-License-Identifier: Apache-2.0

package claims

import "time"

// podsAgain is how often the Pods of an autoscaled cluster are looked at. They are not watched: their number has no bound.
const podsAgain = 30 * time.Second

// freeze keeps the cluster autoscaler from choosing nodes that the portal would not remove. While there are more workers than the
// replicas ask for, all are frozen: a node that stays is idle for a moment, and would be chosen too. Otherwise those are frozen
// that come after a node which must not go, in the order in which the portal removes them; and all if there is no order.
func (p *planner) freeze() {
	from := len(p.places)
	line := p.removalOrder()
	switch {
	case !p.Autoscaled:
	case p.Order == Random || p.surplus > 0 || p.Operation == RemovingNodes || p.Operation == ReplacingNodes:
		from = 0
	default:
		for i, n := range line {
			if n.Pinned {
				from = i
				break
			}
		}
	}
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
