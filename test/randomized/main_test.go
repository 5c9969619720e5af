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
	sequences = flag.Int("sequences", 0, "sequences in each world (0: a small fixed set in two worlds)")
	soak      = flag.Duration("for", 0, "how long to run all worlds together, instead of -sequences")
	clusters  = flag.Int("parallel-clusters", 8, "number of Clusters that live at the same time")
	keepIn    = flag.String("dir", "", "keep the logs of all servers in this directory")
)

// Every test run can afford a few sequences in two worlds. In the first the portal removes random nodes. In the second the
// provider knows the order of removal, so a scale-down must not kill a Pod.
const (
	fewWorlds    = 2
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

// world describes how the portal behaves for all lives in one sandbox.
type world struct {
	victims     emulator.VictimOrder
	upgrade     emulator.UpgradeStyle
	providerIDs bool
	reuseNames  bool
}

// worlds combine each order of removal with an upgrade style, nodes with or without a providerID, and node names that the
// portal does or does not use again.
var worlds = []world{
	{emulator.VictimsRandom, emulator.UpgradeSurge, false, false},
	{emulator.VictimsNewest, emulator.UpgradeInPlace, true, false},
	{emulator.VictimsOldest, emulator.UpgradeRecreate, false, true},
	{emulator.VictimsRandom, emulator.UpgradeReplace, true, true},
}

func (w world) String() string {
	text := fmt.Sprintf("%s-%s", w.victims, w.upgrade)
	if w.providerIDs {
		text += "-providerIDs"
	}
	if w.reuseNames {
		text += "-names-reused"
	}
	return text
}

// worth is the shortest time for which it pays to run a world: the setup takes one minute and the end another one.
const worth = 3 * time.Minute

// affordable returns as many worlds as fit into the time, but at least one. The seed selects the first.
func affordable(within time.Duration, seed int64) []world {
	first := int(uint64(seed) % uint64(len(worlds))) //nolint:gosec // an index
	return slices.Concat(worlds[first:], worlds[:first])[:min(len(worlds), max(1, int(within/worth)))]
}

// TestHistories runs the worlds one after the other. With -for, a world that takes longer leaves less time to the next ones.
func TestHistories(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	chosen, run := worlds, plan{sequences: *sequences, parallel: *clusters}
	switch {
	case *soak > 0:
		chosen, run.sequences = affordable(*soak, *firstSeed), math.MaxInt
	case *sequences == 0:
		chosen, run = worlds[:fewWorlds], plan{sequences: fewSequences, parallel: fewClusters, short: true}
	}
	end := time.Now().Add(*soak)
	for i, w := range chosen {
		if interrupted.Err() != nil {
			t.Fatal("interrupted")
		}
		if *soak > 0 {
			run.until = time.Now().Add(time.Until(end)/time.Duration(len(chosen)-i) - worth/3)
		}
		t.Run(w.String(), func(t *testing.T) { inhabit(t, w, run) })
	}
}
