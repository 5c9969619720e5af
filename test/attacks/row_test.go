// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"testing"
)

// row is one attack.
type row struct {
	// attack describes what the tenant tries.
	attack string
	// heldBy is the control that must stop the attack.
	heldBy string
	// attempt tries the attack, and returns the harm that it did, or "".
	attempt func(*tenant) string
	// alone is true if the attack uses so many resources that it would disturb other rows.
	alone bool
}

// adoption is the control that -without-controls removes. TestAdoption of package contract tries every write that the policy refuses.
const adoption = "policy adoption"

// rows are all attacks, with the control that holds each.
var rows = []row{
	{attack: "clusterID names another's cluster, to delete it", heldBy: adoption, attempt: deletes},
	{attack: "annotations of a Cluster's topology reach the control plane by core's hands", heldBy: adoption, attempt: byCore},
	{attack: "portals that never answer hold all workers of the manager", heldBy: "one namespace holds a share of the workers",
		attempt: tarPits, alone: true},
}

// TestAttacks tries all rows. Rows that would disturb others run last.
func TestAttacks(t *testing.T) {
	t.Run("together", func(t *testing.T) {
		for i, r := range rows {
			if !r.alone {
				t.Run(r.attack, func(t *testing.T) {
					t.Parallel()
					r.live(t, i)
				})
			}
		}
	})
	for i, r := range rows {
		if r.alone {
			t.Run(r.attack, func(t *testing.T) { r.live(t, i) })
		}
	}
}

// live tries the attack. It fails the test if the attack does harm or, without the control, if the attack does none.
func (r row) live(t *testing.T, number int) {
	removed := *withoutControls && r.heldBy == adoption
	if *withoutControls && !removed {
		t.Skipf("the control %q cannot be removed", r.heldBy)
	}
	harm := r.attempt(newTenant(t, number))
	t.Logf("the harm: %q", harm)
	switch {
	case harm != "" && !removed:
		t.Errorf("the attack succeeded, so %q does not hold: %s", r.heldBy, harm)
	case harm == "" && removed:
		t.Errorf("the attack failed without %q, so it shows nothing", r.heldBy)
	}
}
