// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"testing"
	"testing/synctest"
	"time"
)

// What was never written is no request, and a 429 counts as both a request and a refusal.
func TestStatsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		send(t, g, granted(t, g, "a", Read), 200)
		send(t, g, granted(t, g, "a", Mutation), 429, "Retry-After", "1")
		time.Sleep(2 * time.Second)
		unsent := granted(t, g, "a", Read)
		if ok, err := g.spend(unsent.t); !ok {
			t.Fatal(err)
		}
		g.settle(unsent.t, false, nil)
		if s := g.Stats(); s.Sent != 2 || s.Limited != 1 {
			t.Errorf("%d requests, %d refused", s.Sent, s.Limited)
		}
	})
}
