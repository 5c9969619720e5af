// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// TestAccountShare checks that a limiter with a share of the account uses that part of the rate and of the burst, whether its options or
// the portal name the limit. X-RateLimit-Remaining is about the whole account, so a limiter that has used little of its share may go on
// until the account's margin is reached.
func TestAccountShare(t *testing.T) {
	for name, test := range map[string]struct {
		options            Options
		headers            []string // headers of the answer to the first request
		burst, left, after float64  // tokens at first, after the answer, and 3 s later
	}{
		"all":                 {Options{}, nil, 45, 44, 45},
		"half":                {Options{AccountShare: 0.5}, nil, 22.5, 21.5, 22.5},
		"a fifth":             {Options{AccountShare: 0.2}, nil, 9, 8, 9},
		"of a higher tier":    {Options{AccountShare: 0.2, Limit: 900, Burst: 150}, nil, 27, 26, 27},
		"less than a request": {Options{AccountShare: 0.01}, nil, 1, 0, 0.15},
		"the portal's limit":  {Options{AccountShare: 0.2}, []string{"X-RateLimit-Limit", "120", "X-RateLimit-Remaining", "7"}, 9, 2, 3.2},
		"plenty is left":      {Options{AccountShare: 0.2}, []string{"X-RateLimit-Remaining", "40"}, 9, 8, 9},
		"others used more":    {Options{AccountShare: 0.2}, []string{"X-RateLimit-Remaining", "5"}, 9, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLimiter(test.options)
				if got := l.Stats().Tokens; got != test.burst {
					t.Errorf("%v tokens at first, want %v", got, test.burst)
				}
				send(t, l, granted(t, l, "a", Read), 200, test.headers...) // takes a millisecond
				if got := l.Stats().Tokens; math.Abs(got-test.left) > 0.03 {
					t.Errorf("%v tokens after the answer, want %v", got, test.left)
				}
				time.Sleep(3 * time.Second)
				if got := l.Stats().Tokens; math.Abs(got-test.after) > 0.03 {
					t.Errorf("%v tokens 3 s later, want %v", got, test.after)
				}
			})
		})
	}
}

// TestShareIsNotExplored checks that a limiter with a share of the account does not look for a higher tier, because it would find the
// tokens of others. A refusal takes three tenths of its share.
func TestShareIsNotExplored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{AccountShare: 0.02})
		held := granted(t, l, "held", Read)
		for range 100 {
			refusedUntil(t, l, "waits", Read)
			time.Sleep(100 * time.Millisecond)
		}
		if got := l.Stats(); !near(got.Share, 0.02) || got.LimitKnown {
			t.Errorf("after 10 s with a queue the share is %v", got.Share)
		}
		send(t, l, held, 429, "Retry-After", "1")
		if got := l.Stats(); !near(got.Share, 0.014) {
			t.Errorf("after a refusal the share is %v", got.Share)
		}
	})
}

// TestCharge checks that a charge leaves so many requests fewer to all flows.
func TestCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Burst: 10}) // of which 9 are used
		l.Charge(8)
		granted(t, l, "a", Read)
		refusedUntil(t, l, "b", Read)
	})
}
