// SPDX-License-Identifier: Apache-2.0

// Package removal has what is known of the order in which a portal removes workers, and of the nodes that existed before an operation. Both are
// stored with the operation. Package claims expects removals by it.
package removal

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

// Sign turns a comparison by age into one by this order: the node that goes first is the smaller one.
func (o Order) Sign(age int) int {
	switch o {
	case Oldest:
		return age
	case Random:
		return 0
	}
	return -age
}

// Key is what may tell the nodes of one batch apart. A batch has the nodes that one job of the portal made. They join in any order, so
// neither their ages nor their names are believed before a removal has shown that the portal goes by them.
type Key string

// The keys, the likeliest first.
const (
	ByPosition Key = "Position" // in the portal's list of instances
	ByAge      Key = "Age"
	ByName     Key = "Name" // portals write a counter into it, or the time in hexadecimal digits
)

var keys = []Key{ByPosition, ByAge, ByName}

// Compare compares two nodes of a batch. The one that the portal made first is the smaller one, as far as the key shows.
func (k Key) Compare(a, b NodeSnapshot) int {
	switch k {
	case ByAge:
		return cmp.Compare(a.Created, b.Created)
	case ByName:
		return cmp.Or(len(a.Name)-len(b.Name), strings.Compare(a.Name, b.Name))
	}
	if a.Position == 0 || b.Position == 0 {
		return 0
	}
	return a.Position - b.Position
}

// Evidence is what the scale-downs of a cluster have shown.
type Evidence struct {
	// Order in which the portal removes batches, or "".
	Order Order `json:"order,omitempty"`
	// Within is the order in which the portal removes the nodes of one batch, by each key that a removal has shown. It is Random if a
	// later removal has contradicted that, or if none fits.
	Within map[Key]Order `json:"within,omitempty"`
}

// Expected returns the order in which the portal is expected to remove batches, and whether it has shown that.
func (e Evidence) Expected() (order Order, observed bool) {
	if e.Order != "" {
		return e.Order, true
	}
	for _, key := range keys {
		if order := e.Within[key]; order != "" && order != Random {
			return order, false // a portal that goes by age within a batch is likely to do so between batches
		}
	}
	return Newest, false
}

// NodeSnapshot is a worker node as it was before a scale or an upgrade.
type NodeSnapshot struct {
	UID     string `json:"uid"`
	Created int64  `json:"created"` // in seconds since 1970, which is as exact as Kubernetes is
	// Schedulable: the node took Pods. If the operation fails, this is true until lifecycle.RestoreScheduling has looked at the node.
	Schedulable bool `json:"schedulable,omitempty"`
	// Undrained: the node took no Pods, and may have had some, because its drain had not ended, or because a person had cordoned it.
	Undrained bool   `json:"undrained,omitempty"`
	Name      string `json:"name,omitempty"`
	Batch     string `json:"batch,omitempty"`
	Position  int    `json:"position,omitempty"`
}

// HadPods reports whether Pods may have run on the node.
func (n NodeSnapshot) HadPods() bool { return n.Schedulable || n.Undrained }

// MadeBy returns the batch of a node. If the node does not say, it is the batch that was known when the last scale or upgrade began, or this
// operation itself, whose id is given, if the node is younger than all that were there. Nothing may have been noted on a node since: the
// next operation may begin in the pass that sees the end of the last one. A node that is not Ready may be missing among those that
// were there, because it may be what is left of a machine.
func MadeBy(n NodeSnapshot, last string, older []NodeSnapshot) string {
	if n.Batch != "" || len(older) == 0 {
		return n.Batch
	}
	if i := slices.IndexFunc(older, func(s NodeSnapshot) bool { return s.UID == n.UID }); i >= 0 {
		return older[i].Batch
	}
	if slices.ContainsFunc(older, func(s NodeSnapshot) bool { return s.Created >= n.Created }) {
		return ""
	}
	return last
}

// Batches numbers the batch of each node, by UID, the oldest batch first. Batches whose nodes did not join one batch after the other are one.
func Batches(nodes []NodeSnapshot) map[string]int {
	line := slices.SortedFunc(slices.Values(nodes), func(a, b NodeSnapshot) int { return cmp.Compare(a.Created, b.Created) })
	joined := map[string]int64{} // when the last node of the batch did
	for _, n := range line {
		joined[n.Batch] = n.Created
	}
	numbers, number, until := map[string]int{}, 0, int64(-1)
	for _, n := range line {
		if n.Created > until {
			number++
		}
		numbers[n.UID], until = number, max(until, joined[n.Batch])
	}
	return numbers
}

// Split returns which of the nodes are gone, and which exist.
func Split(before, now []NodeSnapshot) (gone, kept []NodeSnapshot) {
	for _, b := range before {
		if slices.ContainsFunc(now, func(n NodeSnapshot) bool { return n.UID == b.UID }) {
			kept = append(kept, b)
		} else {
			gone = append(gone, b)
		}
	}
	return gone, kept
}

// Learn returns what is known after a scale-down.
func (e Evidence) Learn(before, now []NodeSnapshot) Evidence {
	gone, kept := Split(before, now)
	batch := Batches(before)
	next := Evidence{Order: e.Order.learn(gone, kept, func(a, b NodeSnapshot) int { return batch[a.UID] - batch[b.UID] })}
	for _, key := range keys {
		within := func(a, b NodeSnapshot) int {
			if batch[a.UID] != batch[b.UID] {
				return 0
			}
			return key.Compare(a, b)
		}
		if known := e.Within[key].learn(gone, kept, within); known != "" {
			if next.Within == nil {
				next.Within = map[Key]Order{}
			}
			next.Within[key] = known
		}
	}
	return next
}

// learn returns the order that is known after these nodes were removed and those kept. It was "" before if nothing had shown one. A removal
// that fits both orders shows nothing. Two that contradict each other show that there is no order.
func (o Order) learn(gone, kept []NodeSnapshot, age func(a, b NodeSnapshot) int) Order {
	newest, oldest := true, true
	for _, g := range gone {
		for _, k := range kept {
			newest, oldest = newest && age(g, k) >= 0, oldest && age(g, k) <= 0
		}
	}
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

// Compare compares two nodes of a batch by the keys that are shown. The one that goes first is the smaller one.
func (e Evidence) Compare(a, b NodeSnapshot) (order int) {
	for _, key := range keys {
		if by := e.Within[key]; by != "" {
			order = cmp.Or(order, by.Sign(key.Compare(a, b)))
		}
	}
	return order
}
