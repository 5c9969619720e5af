// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"

	"pgregory.net/rapid"
)

// TestUpgradeKeepsMachinesAvailable upgrades clusters whose portal replaces one node after the other, and gives core and the provider some
// time between the portal's steps. Machines whose node is away are bound to the node that comes back, so never more live Machines
// are not Ready than the portal has nodes away.
func TestUpgradeKeepsMachinesAvailable(t *testing.T) {
	replaced := 0
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.settle()
		w.late = false // no Machine can use a node before it is initialized
		for range rapid.IntRange(1, 3).Draw(t, "upgrades") {
			w.operation = ReplacingNodes
			w.say("upgrade")
			replaced += w.upgrade(rapid.IntRange(2, 5).Draw(t, "laps"))
			w.settle()
		}
	})
	if replaced == 0 {
		t.Error("no node was replaced")
	}
}

// upgrade takes the upgrade to its end, with so many laps after each step of the portal: one to bind the Machine and one more until
// core shows it. It returns how many nodes were replaced.
func (w *world) upgrade(laps int) (replaced int) {
	for w.operation == ReplacingNodes {
		away := len(w.away)
		w.finish()
		back := max(0, away-len(w.away))
		replaced += back
		for i := range laps {
			w.lap()
			if i > 0 {
				back = 0
			}
			missing := filter(w.machines, func(m *model) bool { return !m.Deleting && !w.ready(m) })
			if len(missing) > len(w.away)+back {
				w.dump()
				w.fail("%d live Machines are not Ready while the portal has %d nodes away", len(missing), len(w.away))
			}
		}
	}
	return replaced
}
