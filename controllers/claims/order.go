// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"slices"
	"strings"
)

// Order is the order in which the portal is expected to remove workers. The specification does not say: the newest are
// expected to go first until a scale down shows otherwise.
type Order string

// What may be expected.
const (
	NewestFirst Order = ""
	OldestFirst Order = "oldest"
	// NoOrder: what the portal did fits no order, or not always the same one. Nothing is predicted any more: every drain is
	// waited for before the portal is asked, and no Machine is moved beforehand.
	NoOrder Order = "none"
)

// Sighting is a worker node as it was before a scale down.
type Sighting struct {
	UID     string `json:"uid"`
	Created int64  `json:"created"` // seconds since 1970, as exact as Kubernetes tells it
}

// Sight remembers the nodes, for a scale down to be compared with.
func Sight(nodes []Node) (seen []Sighting) {
	for _, n := range nodes {
		seen = append(seen, Sighting{UID: n.UID, Created: n.Created.Unix()})
	}
	return seen
}

// observe compares what a finished scale down has removed with what was expected, once as many nodes are there as it was
// to leave.
func (v View) observe(p *Plan) Order {
	if v.Operation != Idle || len(v.Before) == 0 || len(v.Nodes) != v.Size {
		return v.Order
	}
	p.Observed, p.Order = true, learn(v.Order, v.Before, v.Nodes)
	return p.Order
}

// learn returns the order that fits what is expected and what has happened. Nodes of the same second may go in any order.
func learn(expected Order, before []Sighting, now []Node) Order {
	var gone, kept []int64
	for _, b := range before {
		if slices.ContainsFunc(now, func(n Node) bool { return n.UID == b.UID }) {
			kept = append(kept, b.Created)
		} else {
			gone = append(gone, b.Created)
		}
	}
	if len(gone) == 0 || len(kept) == 0 {
		return expected
	}
	newest := slices.Min(gone) >= slices.Max(kept)
	oldest := slices.Max(gone) <= slices.Min(kept)
	switch {
	case expected == NewestFirst && newest, expected == OldestFirst && oldest:
		return expected
	case expected == NewestFirst && oldest:
		return OldestFirst
	}
	return NoOrder
}

// inLine sorts the nodes as they are expected to go; none where nobody can tell. Which of the same second goes first nobody
// can tell either: those come first that go without harm.
func (v View) inLine() []Node {
	if v.Order == NoOrder {
		return nil
	}
	const drains, held, live = -1, 1, 2 // and 0: no Machine's
	needed := map[string]int{}
	for _, m := range v.Machines {
		switch {
		case IsReleased(m.ClaimProviderID):
		case !m.Deleting:
			needed[m.ClaimNodeUID] = live
		case m.PreDrain:
			needed[m.ClaimNodeUID] = max(needed[m.ClaimNodeUID], held)
		case needed[m.ClaimNodeUID] == 0:
			needed[m.ClaimNodeUID] = drains
		}
	}
	nodes := slices.Clone(v.Nodes)
	slices.SortFunc(nodes, func(a, b Node) int {
		age := a.Created.Compare(b.Created)
		if v.Order == NewestFirst {
			age = -age
		}
		return cmp.Or(age, needed[a.UID]-needed[b.UID], strings.Compare(b.Name, a.Name))
	})
	return nodes
}
