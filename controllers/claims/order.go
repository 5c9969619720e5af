// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"slices"
	"strings"
)

// Order is the order in which the portal removes workers when it is asked for fewer. The specification does not define it.
type Order string

// The orders.
const (
	Newest Order = "Newest"
	Oldest Order = "Oldest"
	// Random means that the removals fit no order. Nothing is predicted: the portal is asked only after every drain has ended.
	Random Order = "Random"
)

// NodeSnapshot is a worker node as it was before a scale or an upgrade.
type NodeSnapshot struct {
	UID     string `json:"uid"`
	Created int64  `json:"created"` // in seconds since 1970, which is as exact as Kubernetes is
	// Schedulable: the node took Pods. If the operation fails, this is true until lifecycle.RestoreScheduling has looked at the node.
	Schedulable bool `json:"schedulable,omitempty"`
}

// Snapshot records the nodes before a scale, to compare them with those after it.
func Snapshot(nodes []Node) (seen []NodeSnapshot) {
	for _, n := range nodes {
		seen = append(seen, NodeSnapshot{UID: n.UID, Created: n.Created.Unix(), Schedulable: !n.Cordoned})
	}
	return seen
}

// learn returns the observed order after a scale-down. It was "" before if no scale-down had shown an order. A scale-down that fits
// both orders, or that removed none or all of the nodes, shows nothing. Two that contradict each other show that there is no order.
func (o Order) learn(before []NodeSnapshot, now []Node) Order {
	var gone, kept []int64
	for _, b := range before {
		if slices.ContainsFunc(now, func(n Node) bool { return n.UID == b.UID }) {
			kept = append(kept, b.Created)
		} else {
			gone = append(gone, b.Created)
		}
	}
	if len(gone) == 0 || len(kept) == 0 {
		return o
	}
	newest, oldest := slices.Min(gone) >= slices.Max(kept), slices.Max(gone) <= slices.Min(kept)
	shown := Random
	switch {
	case newest && oldest:
		return o
	case newest:
		shown = Newest
	case oldest:
		shown = Oldest
	}
	if o != "" && o != shown {
		return Random
	}
	return shown
}

// removalOrder sorts the nodes in the order in which the portal is expected to remove them. If the order does not distinguish
// nodes, because they joined in the same second or the order is unknown, those come first whose removal costs least.
func (p *planner) removalOrder() []*worker {
	line := slices.Clone(p.workers)
	slices.SortStableFunc(line, func(a, b *worker) int {
		age := 0
		switch p.Order {
		case Oldest:
			age = a.Created.Compare(b.Created)
		case Random:
		default:
			age = b.Created.Compare(a.Created)
		}
		return cmp.Or(age, a.cost()-b.cost(), b.Created.Compare(a.Created), strings.Compare(b.Name, a.Name))
	})
	return line
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
