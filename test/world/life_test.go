// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	mathrand "math/rand"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/cryptotest"
	"time"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
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

// rough are the faults of an unlucky provider.
var rough = Faults{Stale: 0.25, MostStale: 3 * time.Second, Pauses: 0.1, MostPause: 2 * time.Second, Crashes: 8, CrashWithin: 60}

// TestSameSeed lives one life twice.
func TestSameSeed(t *testing.T) {
	for _, faults := range []Faults{{}, rough} {
		o := Options{Seed: 7, Portal: QuickPortal(), Faults: faults}
		if first, second := seeded(t, o, smallLife), seeded(t, o, smallLife); first != second {
			t.Errorf("%+v: %s, then %s", faults, first, second)
		}
	}
}
