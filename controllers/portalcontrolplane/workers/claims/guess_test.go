// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// TestWrongGuessCostsOneNode scales new clusters of 5 to 10 nodes down by 2 to 4, twice, 1,000 times for each order of removal. The
// user has not set the order. The portal may then remove one node of a cluster with running Pods at most, unless it has no order.
func TestWrongGuessCostsOneNode(t *testing.T) {
	for _, order := range []removal.Order{removal.Newest, removal.Oldest, removal.Random} {
		most := map[removal.Order]int{removal.Newest: 0, removal.Oldest: 1}
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
func undrained(t *rapid.T, order removal.Order) (lost int) {
	d := newDeployment("a", rapid.IntRange(5, 10).Draw(t, "nodes"))
	w := &world{t: t, clock: time.Unix(0, 0), order: order, size: d.replicas, recorded: d.replicas, groups: []*deployment{d}}
	for len(w.nodes) < w.size {
		w.addNodes(len(w.nodes) + 1)
		w.nodes[len(w.nodes)-1].BatchNoted = fmt.Sprintf("op%d", w.jobs)
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
		busy := filter(w.running(), func(n *kubeNode) bool { return n.busy })
		w.finish()
		for _, n := range busy {
			lost += oneIf(!slices.Contains(w.running(), n))
		}
	}
	return lost
}

// TestOrdinaryScaleDown scales 1,000 clusters from 2 workers to 5 and back to 3, with all defaults, at portals that remove the newest node
// first and choose in any way among those that one job has made, which join in any order. No Pod may be killed.
func TestOrdinaryScaleDown(t *testing.T) {
	lives := rapid.Custom(func(t *rapid.T) int {
		d := newDeployment("a", 2)
		w := &world{t: t, clock: time.Unix(0, 0), order: removal.Newest, size: 2, recorded: 2, groups: []*deployment{d}, listed: rapid.Bool().Draw(t, "listed")}
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
