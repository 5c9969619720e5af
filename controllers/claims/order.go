// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"math/big"
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

// ObservedOrder is what the scale-downs of one cluster have shown about the portal's order of removal. The zero value means
// nothing yet.
type ObservedOrder struct {
	Order Order `json:"order,omitempty"`
	// Odds is how many choices a portal that removes workers at random would have had, for each choice that it made according to
	// Order.
	Odds int `json:"odds,omitempty"`
}

// enoughOdds makes an order known: a portal without an order would show it in fewer than 1 of 20 cases.
const enoughOdds = 20

// Known reports whether the order is more than a guess.
func (l ObservedOrder) Known() bool { return l.Order == Random || l.Odds >= enoughOdds }

// NodeSnapshot is a worker node as it was before a scale.
type NodeSnapshot struct {
	UID     string `json:"uid"`
	Created int64  `json:"created"` // in seconds since 1970, which is as exact as Kubernetes is
}

// Snapshot records the nodes before a scale, to compare them with those after it.
func Snapshot(nodes []Node) (seen []NodeSnapshot) {
	for _, n := range nodes {
		seen = append(seen, NodeSnapshot{UID: n.UID, Created: n.Created.Unix()})
	}
	return seen
}

// learn returns what is known of the order after a scale-down. A scale-down that fits both orders, or that removed none or all of
// the nodes, shows nothing.
func (l ObservedOrder) learn(before []NodeSnapshot, now []Node) ObservedOrder {
	var gone, kept []int64
	for _, b := range before {
		if slices.ContainsFunc(now, func(n Node) bool { return n.UID == b.UID }) {
			kept = append(kept, b.Created)
		} else {
			gone = append(gone, b.Created)
		}
	}
	if len(gone) == 0 || len(kept) == 0 {
		return l
	}
	newest, oldest := slices.Min(gone) >= slices.Max(kept), slices.Max(gone) <= slices.Min(kept)
	order := Newest
	if oldest {
		order = Oldest
	}
	switch {
	case newest && oldest, l.Order == Random:
		return l
	case !newest && !oldest, l.Order != "" && l.Order != order:
		return ObservedOrder{Order: Random}
	}
	return ObservedOrder{Order: order, Odds: min(enoughOdds, max(1, l.Odds)*choices(len(before), len(gone)))}
}

// choices returns in how many ways k of n nodes can be removed, up to enoughOdds.
func choices(n, k int) int {
	ways := new(big.Int).Binomial(int64(n), int64(k))
	if ways.Cmp(big.NewInt(enoughOdds)) > 0 {
		return enoughOdds
	}
	return int(ways.Int64())
}

// removalOrder sorts the nodes in the order in which the portal is expected to remove them. If the order does not distinguish
// nodes, because they joined in the same second or the order is unknown, those come first whose removal costs least.
func (p *planner) removalOrder() []*place {
	line := slices.Clone(p.places)
	slices.SortStableFunc(line, func(a, b *place) int {
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
func (n *place) cost() int {
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
