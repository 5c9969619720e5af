// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStuckIn checks when an operation counts as stuck: 30 minutes after the nodes last showed progress of it, or after its begin if no nodes
// were seen.
func TestStuckIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *LastProgress
		op := New(Upgrade, "v1.36.3")
		expect := func(title string, want time.Duration) {
			t.Helper()
			if got := p.StuckIn(op).Round(time.Minute); got != want {
				t.Errorf("%s: stuck in %s, want %s", title, got, want)
			}
		}
		time.Sleep(10 * time.Minute)
		expect("nothing remembers progress", 20*time.Minute)
		p = &LastProgress{}
		expect("no nodes were seen", 20*time.Minute)
		p.See(op, 1)
		expect("the nodes are seen", 30*time.Minute)
		time.Sleep(10 * time.Minute)
		p.See(op, 1)
		expect("they are the same", 20*time.Minute)
		p.See(op, 2)
		expect("they differ", 30*time.Minute)
		p.See(nil, 3)
		time.Sleep(31 * time.Minute)
		expect("they do not differ any more", -time.Minute)
		op = New(Scale, "5")
		expect("another operation begins", 30*time.Minute)
	})
}
