// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"testing"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

func at(second int) time.Time { return time.Date(2026, 7, 1, 12, 0, second, 0, time.UTC) }

// TestKilled checks that the judge of removals reports killed Pods, but not if the provider could not know the order of removal
// or a drain could not have helped.
func TestKilled(t *testing.T) {
	const newest, oldest, random = emulator.VictimsNewest, emulator.VictimsOldest, emulator.VictimsRandom
	drained := emulator.Removal{Machine: "i-3", Cordoned: true, Ready: true}
	with := func(change func(*emulator.Removal)) emulator.Removal { r := drained; change(&r); return r }
	running := with(func(r *emulator.Removal) { r.Pods = []string{"default/a"} })
	for name, c := range map[string]struct {
		portal   emulator.VictimOrder
		recorded string
		removal  emulator.Removal
		batch    string // of a node of the same second that stays, or "" if none does
		want     bool
	}{
		"drained":                     {newest, "", drained, "", false},
		"with a Pod":                  {newest, "", running, "", true},
		"with a Pod, cordoned or not": {newest, "", with(func(r *emulator.Removal) { r.Cordoned, r.Pods = false, []string{"default/a"} }), "", true},
		"amid its drain":              {newest, "", with(func(r *emulator.Removal) { r.Terminating = []string{"default/a"} }), "", true},
		"without a kubelet":           {newest, "", with(func(r *emulator.Removal) { r.Ready, r.Terminating = false, []string{"default/a"} }), "", false},
		"one of two of a second":      {newest, "", running, "b", false},
		"one of two of a batch":       {newest, "", running, "c", false},
		"no longer taken for newest":  {newest, "none", running, "", false},
		"oldest, not known yet":       {oldest, "", running, "", false},
		"oldest, known":               {oldest, "Oldest", running, "", true},
		"oldest, in doubt again":      {oldest, "none", running, "", false},
		"random":                      {random, "", running, "", false},
	} {
		h := newHarm()
		h.births = map[string]birth{"i-1": {at(0), "a"}, "i-2": {at(10), "b"}, "i-3": {at(20), "c"}}
		if c.batch != "" {
			h.births["i-2"] = birth{at(20), c.batch}
		}
		h.orderNoted("before", at(0))
		h.orderNoted(c.recorded, at(30))
		h.orderNoted("after", at(50))
		if got := h.killed(c.portal, at(40), []emulator.LogEntry{{Removal: &c.removal}}); (len(got) > 0) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTwinsThatBothGo removes two nodes of the same second with one job. The provider had to drain both, because the
// portal may remove either first, so the judge reports the one with a Pod.
func TestTwinsThatBothGo(t *testing.T) {
	h := newHarm()
	h.births = map[string]birth{"i-1": {at(0), "a"}, "i-2": {at(20), "b"}, "i-3": {at(20), "b"}}
	job := []emulator.LogEntry{
		{Removal: &emulator.Removal{Machine: "i-2", Ready: true}},
		{Removal: &emulator.Removal{Machine: "i-3", Ready: true, Pods: []string{"default/a"}}},
	}
	if got := h.killed(emulator.VictimsNewest, at(40), job); len(got) != 1 {
		t.Errorf("killed: %v", got)
	}
}

// TestHasty checks that a node may keep Pods only if the last MachineDeployment that held it ends drains early.
func TestHasty(t *testing.T) {
	removal := &emulator.Removal{Machine: "i-1", Ready: true, Pods: []string{"default/a"}}
	for deployment, want := range map[string]int{"hasty": 0, "patient": 1, "": 1} {
		h := newHarm()
		h.hasty["hasty"] = true
		if deployment != "" {
			h.holders["n-1"] = deployment
		}
		if got := h.killed(emulator.VictimsNewest, at(40), []emulator.LogEntry{{ID: "n-1", Removal: removal}}); len(got) != want {
			t.Errorf("%q: %v", deployment, got)
		}
	}
}

// TestOrderIn reads the recorded order, and "" if there is none or the record is invalid.
func TestOrderIn(t *testing.T) {
	for text, want := range map[string]string{"": "", "{}": "", "{": "", `{"size":3,"removalOrder":{"order":"Oldest","odds":3}}`: "Oldest"} {
		if got := orderIn(map[string]string{infrav1.RecordAnnotation: text}); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
