// SPDX-License-Identifier: Apache-2.0

package world

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Without flags the exhaustive tests try a sample.
var (
	every = flag.Int64("every", 0, "try one in so many points of the small life. 1 tries all, and 0 three of them")
	from  = flag.Int64("from", 1, "the first of these points")
)

// smallLife is the shortest life with all operations.
func smallLife(w *World) {
	w.CreateCluster(2)
	w.looks = append(w.looks, (&person{World: w, since: map[string]time.Time{}}).look)
	w.Until("created with 2 workers", Patience, w.Runs(2, oldVersion))
	w.Scale(3)
	w.Until("scaled to 3", Patience, w.Runs(3, oldVersion))
	w.RollApp()
	w.Scale(1)
	w.Until("scaled to 1", Patience, w.Runs(1, oldVersion))
	Edit(w, key, &infrav1.PortalControlPlane{}, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = newVersion })
	Edit(w, key, &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = newVersion })
	w.Until("upgraded", Patience, w.Runs(1, newVersion))
	w.Delete(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	w.Until("deleted", Patience, w.Left)
}

// atEvery lives the small life once without faults, and then once for each point that it has, with the fault at that point.
func atEvery(t *testing.T, points func(w *World) int64, at func(n int64) []Faults) {
	var all int64
	var asked []string
	seeded(t, Options{Seed: 1, Portal: QuickPortal()}, func(w *World) {
		smallLife(w)
		all, asked = points(w), w.Requests()
	})
	tried, step, n := 0, *every, *from
	if step == 0 {
		step = max(1, all/3)
		n = max(1, step/2)
	}
	for ; n <= all; n += step {
		for _, faults := range at(n) {
			tried++
			t.Run(fmt.Sprintf("%d-%t", n, faults.CrashAfter), func(t *testing.T) {
				seeded(t, Options{Seed: 1, Portal: QuickPortal(), Faults: faults}, func(w *World) {
					smallLife(w)
					if got := slices.DeleteFunc(w.Requests(), busy); !slices.Equal(got, asked) {
						t.Errorf("%+v: the portal was asked %s\ninstead of %s", faults, strings.Join(got, ", "), strings.Join(asked, ", "))
					}
					if killed := w.Killed(); len(killed) > 0 {
						t.Errorf("%+v: killed without an eviction: %v", faults, killed)
					}
				})
			})
		}
	}
	t.Logf("%d points, %d lives with a fault", all, tried)
}

// busy reports that the portal refused a request because a job runs. The repetition of a request whose answer was lost may meet its own job.
func busy(request string) bool { return strings.HasSuffix(request, " 409") }

// TestCrashAtEveryWrite kills the manager before and after each of its writes, to any API server and to the portal. The portal does nothing twice.
func TestCrashAtEveryWrite(t *testing.T) {
	atEvery(t, func(w *World) int64 { return w.provider.fence.writes.Load() }, func(n int64) []Faults {
		return []Faults{{CrashAt: n}, {CrashAt: n, CrashAfter: true}}
	})
}

// TestStaleReadAtEveryChange shows one change to the manager five seconds late, and all that come after it to the same informer.
func TestStaleReadAtEveryChange(t *testing.T) {
	atEvery(t, func(w *World) int64 { return w.shown }, func(n int64) []Faults { return []Faults{{LateAt: n, MostStale: 5 * time.Second}} })
}

// TestLostChangeAtEveryChange does not show one change to the manager: it sees the object as it is after the next one.
func TestLostChangeAtEveryChange(t *testing.T) {
	atEvery(t, func(w *World) int64 { return w.shown }, func(n int64) []Faults { return []Faults{{LostAt: n}} })
}
