// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var (
	firstSeed = flag.Int64("seed", 1, "seed of the first life, counted up for the others")
	sequences = flag.Int("sequences", 0, "sequences in each environment (0: a small fixed set in two environments)")
	soak      = flag.Duration("for", 0, "how long to run all environments together, instead of -sequences")
	clusters  = flag.Int("parallel-clusters", 8, "number of Clusters that live at the same time")
	keepIn    = flag.String("dir", "", "keep the logs of all servers in this directory")
)

// Every test run can afford a few sequences in two environments. In the first the portal removes random nodes. In the second the
// provider knows the order of removal, so a scale-down must not kill a Pod.
const (
	fewBehaviors = 2
	fewSequences = 2 // in each
	fewClusters  = 2
)

// interrupted is done when the user interrupts the test. The lives stop, the servers end, and their files are removed.
var interrupted context.Context

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	flag.Parse()
	interrupted, _ = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(m.Run())
}

// behavior is how the portal behaves for all lives in one sandbox.
type behavior struct {
	victims     emulator.VictimOrder
	upgrade     emulator.UpgradeStyle
	providerIDs bool
	reuseNames  bool
}

// behaviors combine each order of removal with an upgrade style, nodes with or without a providerID, and node names that the
// portal does or does not use again.
var behaviors = []behavior{
	{emulator.VictimsRandom, emulator.UpgradeSurge, false, false},
	{emulator.VictimsNewest, emulator.UpgradeInPlace, true, false},
	{emulator.VictimsOldest, emulator.UpgradeRecreate, false, true},
	{emulator.VictimsRandom, emulator.UpgradeReplace, true, true},
}

func (b behavior) String() string {
	text := fmt.Sprintf("%s-%s", b.victims, b.upgrade)
	if b.providerIDs {
		text += "-providerIDs"
	}
	if b.reuseNames {
		text += "-names-reused"
	}
	return text
}

// worth is the shortest time for which it pays to run an environment: the setup takes one minute and the end another one.
const worth = 3 * time.Minute

// affordable returns as many environments as fit into the time, but at least one. The seed selects the first.
func affordable(within time.Duration, seed int64) []behavior {
	first := int(uint64(seed) % uint64(len(behaviors)))
	return slices.Concat(behaviors[first:], behaviors[:first])[:min(len(behaviors), max(1, int(within/worth)))]
}

// TestHistories runs the environments one after the other. With -for, an environment that takes longer leaves less time to the next ones.
func TestHistories(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	chosen, run := behaviors, plan{sequences: *sequences, parallel: *clusters}
	switch {
	case *soak > 0:
		chosen, run.sequences = affordable(*soak, *firstSeed), math.MaxInt
	case *sequences == 0:
		chosen, run = behaviors[:fewBehaviors], plan{sequences: fewSequences, parallel: fewClusters, short: true}
	}
	end := time.Now().Add(*soak)
	for i, b := range chosen {
		if interrupted.Err() != nil {
			t.Fatal("interrupted")
		}
		if *soak > 0 {
			run.until = time.Now().Add(time.Until(end)/time.Duration(len(chosen)-i) - worth/3)
		}
		t.Run(b.String(), func(t *testing.T) { runIn(t, b, run) })
	}
}
