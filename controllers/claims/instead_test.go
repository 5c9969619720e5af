// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestBatch checks which nodes are drained, and what the portal is asked for, where it made n3, n4 and n5 in one job and removes the newest
// first. No removal has shown which of the three goes first.
func TestBatch(t *testing.T) {
	a, b := made("", 0), made("a", 100)
	batch := func(changes ...func(*Node)) []Node { // of n3, n4 and n5
		nodes := []Node{node("n1", a), node("n2", a)}
		for i := range 3 {
			change := func(*Node) {}
			if i < len(changes) {
				change = changes[i]
			}
			nodes = append(nodes, node(fmt.Sprintf("n%d", i+3), b, change))
		}
		return nodes
	}
	none, drainedNow := func(*Node) {}, func(n *Node) { n.Cordoned, n.Drained = true, epoch.Add(59*time.Minute) }
	bound, five := []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3")}, append(slices.Clone(threeBound), machine("m4", "n4"))
	held := append(slices.Clone(bound[:2]), machine("m3", "n3", shielded))
	byName := Evidence{Order: Newest, Within: map[Key]Order{ByName: Newest}}
	rules{
		"two of three go: the third is drained too, and its Machine is shielded": {
			View{Desired: 3, Size: 5, Nodes: batch(), Machines: bound}, "shield m3, evict n5, evict n4, evict n3",
		},
		"the portal waits for the third":      {View{Desired: 3, Size: 5, Nodes: batch(evicting, drainedNow, drainedNow), Machines: held}, "evict n3"},
		"all are drained: one request":        {View{Desired: 3, Size: 5, Nodes: batch(gone, gone, gone), Machines: held}, "scale 3"},
		"but its Machine could be remediated": {View{Desired: 3, Size: 5, Nodes: batch(gone, drainedNow, drainedNow), Machines: bound}, "shield m3"},
		"the order between batches is a guess too: one node, to see it": {
			View{Desired: 3, Size: 5, OrderAssumed: true, Nodes: batch(gone, gone, gone), Machines: held}, "scale 4",
		},
		"the third finds no room for its Pods for five minutes: a guess, one node": {
			View{Desired: 3, Size: 5, Nodes: batch(evicting, gone, gone), Machines: held}, "evict n3, scale 4",
		},
		"unless the user wants every node drained that may go": {
			View{Desired: 3, Size: 5, DrainPossible: true, Nodes: batch(evicting, gone, gone), Machines: held}, "evict n3",
		},
		"the portal has chosen: what stays takes Pods again": {
			View{Desired: 3, Size: 3, Nodes: []Node{node("n1", a), node("n2", a), node("n3", b, gone)}, Machines: held}, "uncordon n3, unshield m3",
		},
		"all three go: none may stay": {View{Desired: 2, Size: 5, Nodes: batch(gone, gone, gone), Machines: bound[:2]}, "scale 2"},
		"one of three goes: too many to drain, so it is a guess": {
			View{Desired: 4, Size: 5, Nodes: batch(none, none, gone), Machines: five}, "scale 4",
		},
		"one of three goes, and every node that may go is to be drained": {
			View{Desired: 4, Size: 5, DrainPossible: true, Nodes: batch(none, none, gone), Machines: five}, "shield m3, shield m4, evict n4, evict n3",
		},
		"any of the workers may go: none is drained": {
			View{Desired: 4, Size: 5, OrderAssumed: true, DrainPossible: true, Nodes: batch(), Machines: five}, "",
		},
		"a removal has shown that the portal goes by name": {
			View{Desired: 3, Size: 5, Evidence: byName, Nodes: batch(none, gone, gone), Machines: bound}, "scale 3",
		},
		"all are of one batch, and one stays: it cannot take all Pods while the other drains": {
			View{Desired: 1, Size: 2, Nodes: []Node{node("n1", a), node("n2", a)}, Machines: bound[:1]}, "evict n2",
		},
		"a batch before it goes whole, and of the rest one, which is a guess": {
			View{Desired: 2, Size: 6, Nodes: []Node{node("n1", a, gone), node("n2", a), node("n3", a), node("n4", b, gone), node("n5", b, gone), node("n6", b, gone)},
				Machines: []Machine{machine("m2", "n2"), machine("m3", "n3")}}, "scale 3",
		},
	}.check(t)
	plan := Decide(View{ClusterID: "c1", Now: epoch.Add(time.Hour), Desired: 4, Size: 5, Nodes: batch(), Machines: five})
	if !plan.NeedsPositions {
		t.Error("the list of instances may tell the three apart, and is not read")
	}
}

// TestNoteBatch checks that nodes are marked with the operation that made them, once.
func TestNoteBatch(t *testing.T) {
	fresh := func(n *Node) { n.Batch = "" }
	older := Snapshot([]Node{node("n1", fresh), node("n2", fresh)})
	rules{
		"those that the last operation made": {
			View{Desired: 3, Size: 3, Batch: "op1", Older: older, Nodes: []Node{node("n1", fresh), node("n2", fresh), node("n3", fresh)}, Machines: threeBound}, "batch n3",
		},
		"those that the operation before it made, also if nothing was noted in between": {
			View{
				Desired: 3, Size: 3, Batch: "op2", Older: []NodeSnapshot{{UID: "uid-n1"}, {UID: "uid-n2", Batch: "op1"}},
				Nodes: []Node{node("n1", fresh), node("n2", fresh), node("n3", fresh)}, Machines: threeBound,
			}, "batch n2, batch n3",
		},
		"not again": {View{Desired: 3, Size: 3, Batch: "op2", Older: older, Nodes: three, Machines: threeBound}, ""},
		"nothing is known about the nodes before it": {
			View{Desired: 3, Size: 3, Batch: "op1", Nodes: []Node{node("n1", fresh), node("n2", fresh), node("n3", fresh)}, Machines: threeBound}, "",
		},
	}.check(t)
}

// TestUndrained checks that the nodes are named which the portal removed although they were not drained.
func TestUndrained(t *testing.T) {
	before := Snapshot([]Node{node("n1"), node("n2", cordoned), node("n3", gone), node("n4", cordoned, notReady)})
	for title, test := range map[string]struct {
		now  []Node
		want []string
	}{
		"the drained one, and one that had failed": {three[:2], nil},
		"one that took Pods":                       {[]Node{node("n2"), node("n3", gone)}, []string{"n1"}},
		"one amid its drain":                       {[]Node{node("n1"), node("n3", gone)}, []string{"n2"}},
	} {
		t.Run(title, func(t *testing.T) {
			plan := Decide(View{ClusterID: "c1", Now: epoch.Add(time.Hour), Desired: 2, Size: 2, ScaledDown: true, Before: before, Nodes: test.now})
			if diff := cmp.Diff(test.want, plan.Undrained); diff != "" || !plan.OrderObserved {
				t.Error(diff)
			}
		})
	}
}

// TestOrdinaryScaleDown scales 1,000 clusters from 2 workers to 5 and back to 3, with all defaults, at portals that remove the newest node
// first and choose in any way among those that one job has made, which join in any order. No Pod may be killed.
func TestOrdinaryScaleDown(t *testing.T) {
	lives := rapid.Custom(func(t *rapid.T) int {
		d := &deployment{name: "a", replicas: 2, revision: 1, surge: 1, sets: map[int]int{1: 0}, foreign: map[int]bool{}, good: 1}
		w := &world{t: t, clock: time.Unix(0, 0), order: Newest, size: 2, recorded: 2, groups: []*deployment{d}, listed: rapid.Bool().Draw(t, "listed")}
		w.addNodes(2)
		w.settle()
		d.replicas = 5
		w.settle()
		d.replicas = 3
		lost := w.settleCounting()
		if lost > 0 {
			w.dump()
		}
		return lost
	})
	killed := 0
	for seed := range 1000 {
		killed += lives.Example(seed)
	}
	if killed > 0 {
		t.Errorf("%d nodes were removed with running Pods", killed)
	}
}
