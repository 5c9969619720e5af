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
	tests := rules{
		"one too many":                        {see("2/3 n1 n2 n3:gone m1/n1 m2/n2"), "scale 2"},
		"two too many":                        {see("1/3 n1 n2:gone n3:gone m1/n1"), "scale 2"},
		"the same, and the size is uncertain": {see("1/3 uncertain n1 n2:gone n3:gone m1/n1"), "scale 2"},
		"the same, and it was never known":    {see("1/-1 n1 n2:gone n3:gone m1/n1"), "scale 2"},
		"more than exist":                     {see("1/5 uncertain n1 n2:gone n3:gone m1/n1"), "scale 2"},
		"all, drained: no order is needed":    {see("0/3 n1:gone n2:gone n3:gone"), "scale 0"},
		"all, and one still drains":           {see("0/3 n1:evicting n2:gone n3:gone"), "evict n1, scale 2"},
		"the answer was lost":                 {see("1/3 uncertain removing target=2 answerLost mayResend n1 n2:gone n3:gone m1/n1"), "shield m1, scale 2"},
		"a request must not add nodes":        {see("3/5 uncertain n1 n2:notReady n3:notReady n4:gone n5:gone m1/n1 m2/n2 m3/n3"), "scale 3"},
		"a roll-out on lost nodes":            {see("1/4 uncertain n1 n2 n3:lost n4:gone m1/n1 m2/n2 m3/n3"), "scale 3"},
	}
	for title, test := range tests {
		test.view.OrderAssumed = true
		tests[title] = test
	}
	tests.check(t)
}
