// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWrongGuessCostsOneNode scales new clusters of 5 to 10 nodes down by 2 to 4, twice, 1,000 times for each order of removal. The
// user has not set the order. The portal may then remove one node of a cluster with running Pods at most, unless it has no order.
func TestWrongGuessCostsOneNode(t *testing.T) {
	for _, order := range []Order{Newest, Oldest, Random} {
		most := map[Order]int{Newest: 0, Oldest: 1}
		clusters, sum, worst := 500, 0, 0
		lives := rapid.Custom(func(t *rapid.T) int { return undrained(t, order) })
		for seed := range clusters {
			lost := lives.Example(seed)
			sum, worst = sum+lost, max(worst, lost)
		}
		t.Logf("%s: %d nodes were removed with running Pods in %d scale-downs, %d of one cluster at most", order, sum, 2*clusters, worst)
		if limit, limited := most[order]; limited && worst > limit {
			t.Errorf("%s: %d nodes of one cluster were removed with running Pods, want at most %d", order, worst, limit)
		}
	}
}

// undrained scales a new cluster down twice, and returns how many nodes were removed with running Pods. No two nodes joined in the
// same second.
func undrained(t *rapid.T, order Order) (lost int) {
	d := &deployment{name: "a", replicas: rapid.IntRange(5, 10).Draw(t, "nodes"), revision: 1, surge: 1, sets: map[int]int{1: 0}, foreign: map[int]bool{}, good: 1}
	w := &world{t: t, clock: time.Unix(0, 0), order: order, size: d.replicas, recorded: d.replicas, groups: []*deployment{d}}
	for len(w.nodes) < w.size {
		w.addNodes(len(w.nodes) + 1)
		w.nodes[len(w.nodes)-1].Batch = fmt.Sprintf("op%d", w.jobs)
	}
	w.settle()
	for range 2 {
		d.replicas = max(0, d.replicas-rapid.IntRange(2, 4).Draw(t, "fewer"))
		lost += w.settleCounting()
	}
	return lost
}

// settleCounting waits until everything has settled, and counts the nodes that the portal removes with running Pods.
func (w *world) settleCounting() (lost int) {
	for rounds := 0; !w.quiet(); rounds++ {
		if rounds == 200 {
			w.fail("does not settle at %d workers", w.desired())
		}
		w.lap()
		w.schedule()
		busy := slices.DeleteFunc(w.running(), func(n *kubeNode) bool { return !n.busy })
		w.finish()
		for _, n := range busy {
			lost += oneIf(!slices.Contains(w.running(), n))
		}
	}
	return lost
}

// TestAssumedOrder checks that a request removes one node while the order of removal is assumed, unless no node stays.
func TestAssumedOrder(t *testing.T) {
	one, two, last := threeBound[:1], threeBound[:2], []Node{node("n1"), node("n2", gone), node("n3", gone)}
	all := []Node{node("n1", gone), node("n2", gone), node("n3", gone)}
	tests := rules{
		"one too many":                            {View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: two}, "scale 2"},
		"two too many":                            {View{Desired: 1, Size: 3, Nodes: last, Machines: one}, "scale 2"},
		"the same, and the size is uncertain":     {View{Desired: 1, Size: 3, SizeUncertain: true, Nodes: last, Machines: one}, "scale 2"},
		"the same, and it was never known":        {View{Desired: 1, Size: -1, Nodes: last, Machines: one}, "scale 2"},
		"more than exist":                         {View{Desired: 1, Size: 5, SizeUncertain: true, Nodes: last, Machines: one}, "scale 2"},
		"all, drained: no order is needed":        {View{Size: 3, Nodes: all}, "scale 0"},
		"all, drained, and the size is uncertain": {View{Size: 3, SizeUncertain: true, Nodes: all}, "scale 0"},
		"all, and one still drains":               {View{Size: 3, Nodes: []Node{node("n1", evicting), node("n2", gone), node("n3", gone)}}, "evict n1, scale 2"},
		"the answer was lost":                     {View{Desired: 1, Size: 3, SizeUncertain: true, Activity: RemovingNodes, Target: 2, AnswerLost: true, MayResend: true, Nodes: last, Machines: one}, "shield m1, scale 2"},
		"a request must not add nodes": {View{Desired: 3, Size: 5, SizeUncertain: true, Machines: threeBound,
			Nodes: []Node{node("n1"), node("n2", notReady), node("n3", notReady), node("n4", gone), node("n5", gone)}}, "scale 3"},
		"a roll-out on lost nodes": {View{Desired: 1, Size: 4, SizeUncertain: true, Nodes: []Node{node("n1"), node("n2"), node("n3", lost), node("n4", gone)}, Machines: threeBound}, "scale 3"},
	}
	for title, test := range tests {
		test.view.OrderAssumed = true
		tests[title] = test
	}
	tests.check(t)
}
