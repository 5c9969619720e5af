// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// learn compares the nodes that a finished scale-down left with those before it, as soon as the expected number exists.
func (p *planner) learn() bool {
	if p.Activity != Idle || !p.ScaledDown || len(p.Before) == 0 || len(p.workers) != p.Size {
		return false
	}
	now := Snapshot(p.plan.Present)
	p.plan.OrderObserved, p.plan.Evidence = true, p.Evidence.Learn(p.Before, now)
	gone, _ := removal.Split(p.Before, now)
	for _, n := range gone {
		if n.HadPods() {
			p.plan.Undrained = append(p.plan.Undrained, n.Name)
		}
	}
	return true
}

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
