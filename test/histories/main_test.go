// SPDX-License-Identifier: Apache-2.0

package histories

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
	firstSeed = flag.Int64("seed", 1, "seed of the first life; the next ones follow")
	sequences = flag.Int("sequences", 0, "sequences in each world; 0: a small fixed set in two worlds")
	soak      = flag.Duration("for", 0, "go on for so long in all worlds together, instead of -sequences")
	clusters  = flag.Int("parallel-clusters", 8, "Clusters that live at the same time")
	keepIn    = flag.String("dir", "", "keep the logs of all servers in this directory")
)

// Few sequences in two worlds are what every test run can afford: one where nobody knows which nodes the portal removes, and
// one where the provider knows, so that no Pod may be killed.
const (
	fewWorlds    = 2
	fewSequences = 2 // in each
	fewClusters  = 2
)

// interrupted ends when somebody wants all this to end: lives are broken off, servers ended, files removed.
var interrupted context.Context

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	flag.Parse()
	interrupted, _ = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(m.Run())
}

// world is what stays the same for all lives in one sandbox: how the portal behaves.
type world struct {
	victims     emulator.VictimOrder
	upgrade     emulator.UpgradeStyle
	providerIDs bool
	reuseNames  bool
}

// worlds pair every victim order with another style of upgrades, nodes with and without providerID, names that come back
// and names that do not.
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

// worth is how long a world has to last for something to happen in it: a minute is over before all is set up, and another
// one is needed to end it.
const worth = 3 * time.Minute

// affordable are the worlds for which there is time; the seed says which.
func affordable(within time.Duration, seed int64) []world {
	first := int(uint64(seed) % uint64(len(worlds))) //nolint:gosec // an index
	return slices.Concat(worlds[first:], worlds[:first])[:min(len(worlds), max(1, int(within/worth)))]
}

// TestHistories runs the worlds one after the other. When they have a time, what one takes longer the next have less.
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
