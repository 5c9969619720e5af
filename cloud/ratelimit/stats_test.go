// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStatsCount checks that a request that was not written does not count, and that a 429 counts as a request and as a refusal.
func TestStatsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		send(t, l, granted(t, l, "a", Read), 200)
		send(t, l, granted(t, l, "a", Mutation), 429, "Retry-After", "1")
		time.Sleep(2 * time.Second)
		unsent := granted(t, l, "a", Read)
		if ok, err := l.Spend(unsent); !ok {
			t.Fatal(err)
		}
		unsent.Settle(false, nil)
		if s := l.Stats(); s.Sent != 2 || s.Limited != 1 {
			t.Errorf("%d requests, %d refused", s.Sent, s.Limited)
		}
	})
}
