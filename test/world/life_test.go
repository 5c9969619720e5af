// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	mathrand "math/rand"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/cryptotest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// seedGlobals makes the random numbers of core and of Kubernetes' libraries the seed's.
func seedGlobals(t *testing.T, seed uint64) {
	cryptotest.SetGlobalRandom(t, seed)
	utilrand.Seed(int64(seed))
	mathrand.Seed(int64(seed)) // which GODEBUG=randseednop=0 lets it do
}

// seeded runs a life with the seed, and returns what it was.
func seeded(t *testing.T, o Options, live func(w *World)) (fingerprint string) {
	t.Helper()
	seedGlobals(t, o.Seed)
	began, cpu := time.Now(), cpuTime()
	Run(t, o, func(w *World) {
		defer func() { // also if the life goes wrong
			if to := os.Getenv("WORLD_LOG"); to != "" {
				w.must(os.WriteFile(fmt.Sprintf("%s-%d-%s", to, o.Seed, w.fingerprint()), []byte(strings.Join(w.log, "\n")), 0o600))
			}
		}()
		live(w)
		fingerprint = w.fingerprint()
		t.Logf("seed %d: %d steps and %d API requests in %s, %d crashes, %d evictions, digest %s",
			o.Seed, w.steps, w.management.requests, time.Since(w.start).Round(time.Second), w.crashes, w.evicted, fingerprint)
	})
	t.Logf("seed %d: %s, %s of CPU time", o.Seed, time.Since(began).Round(time.Millisecond), (cpuTime() - cpu).Round(time.Millisecond))
	return fingerprint
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// wholeLife creates a cluster, scales it, upgrades it, rolls its workers out and deletes it.
func wholeLife(w *World) {
	w.CreateCluster(3)
	w.Until("created with 3 workers", Patience, w.Runs(3, oldVersion))
	w.Scale(5)
	w.Until("scaled to 5", Patience, w.Runs(5, oldVersion))
	w.RollApp()
	w.Scale(2)
	w.Until("scaled to 2", Patience, w.Runs(2, oldVersion))
	Edit(w, key, &infrav1.PortalControlPlane{}, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = newVersion })
	w.Until("upgraded", Patience, func() string {
		cp := &infrav1.PortalControlPlane{}
		if w.Get(key, cp); cp.Status.Version != newVersion {
			return "runs " + cp.Status.Version
		}
		return ""
	})
	Edit(w, key, &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.Version = newVersion })
	w.Until("versions follow", Patience, w.Runs(2, newVersion))
	w.CreateTemplate("b")
	Edit(w, key, &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = "b" })
	w.Until("rolled out", Patience, w.Runs(2, newVersion))
	w.Delete(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	w.Until("deleted", Patience, w.Left)
}

// TestLife lives a whole life without faults.
func TestLife(t *testing.T) {
	seeded(t, Options{Seed: 1, Portal: QuickPortal()}, func(w *World) {
		wholeLife(w)
		if killed := w.Killed(); len(killed) > 0 {
			t.Errorf("killed without an eviction: %v", killed)
		}
		want := []string{
			"POST /kubernetes-clusters 202", "POST /kubernetes-clusters/{cluster_id}/scale 202", "POST /kubernetes-clusters/{cluster_id}/scale 202",
			"POST /kubernetes-clusters/{cluster_id}/scale 202", "POST /kubernetes-clusters/{cluster_id}/upgrade 202", "DELETE /kubernetes-clusters/{cluster_id} 202",
		}
		if got := w.Requests(); !slices.Equal(got, want) {
			t.Errorf("requests: %s", strings.Join(got, ", "))
		}
	})
}

// rough are the faults of an unlucky provider.
var rough = Faults{Stale: 0.25, MostStale: 3 * time.Second, Pauses: 0.1, MostPause: 2 * time.Second, Crashes: 8, CrashWithin: 60}

// TestSameSeed lives one life twice.
func TestSameSeed(t *testing.T) {
	for _, faults := range []Faults{{}, rough} {
		o := Options{Seed: 7, Portal: QuickPortal(), Faults: faults}
		if first, second := seeded(t, o, wholeLife), seeded(t, o, wholeLife); first != second {
			t.Errorf("%+v: %s, then %s", faults, first, second)
		}
	}
}
