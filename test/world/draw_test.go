// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"
)

// TestEverythingIsDrawn plans lives, and checks that each act, each hardship and each cause is in several of them. With -v it names the lives.
func TestEverythingIsDrawn(t *testing.T) {
	drawn := map[string][]uint64{}
	for seed := uint64(1); seed <= 200; seed++ {
		p := drawPlan(seed)
		for _, f := range p.Troubles {
			drawn["cause "+causeOf(f.ID).name] = append(drawn["cause "+causeOf(f.ID).name], seed)
		}
		for _, s := range p.Steps {
			drawn[s.Act] = append(drawn[s.Act], seed)
			if s.Act == "hardship" {
				what := "hardship: " + hardships[s.N%len(hardships)].name
				drawn[what] = append(drawn[what], seed)
			}
		}
	}
	var all []string
	for _, a := range acts {
		all = append(all, a.name)
	}
	for _, h := range hardships {
		all = append(all, "hardship: "+h.name)
	}
	for _, c := range causes {
		all = append(all, "cause "+c.name)
	}
	for _, what := range all {
		if len(drawn[what]) < 3 {
			t.Errorf("%s: only %d times in 200 lives", what, len(drawn[what]))
		}
		t.Logf("%s: %d times, %v", what, len(drawn[what]), drawn[what])
	}
}
