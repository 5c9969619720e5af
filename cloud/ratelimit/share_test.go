// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestAccountShare checks that a limiter with a share of the account uses that part of the rate and of the burst, whether its options or
// the portal name the limit. X-RateLimit-Remaining is about the whole account.
func TestAccountShare(t *testing.T) {
	type row struct {
		options            Options
		headers            []string // headers of the answer to the first request
		burst, left, after float64  // tokens at first, after the answer, and 3 s later
	}
	each(t, map[string]row{
		"all":                 {Options{}, nil, 45, 44, 45},
		"half":                {Options{AccountShare: 0.5}, nil, 22.5, 21.5, 22.5},
		"a fifth":             {Options{AccountShare: 0.2}, nil, 9, 8, 9},
		"of a higher tier":    {Options{AccountShare: 0.2, Limit: 900, Burst: 150}, nil, 27, 26, 27},
		"less than a request": {Options{AccountShare: 0.01}, nil, 1, 0, 0.15},
		"the portal's limit":  {Options{AccountShare: 0.2}, []string{"X-RateLimit-Limit", "120", "X-RateLimit-Remaining", "7"}, 9, 1.4, 1.4},
		"plenty is left":      {Options{AccountShare: 0.2}, []string{"X-RateLimit-Remaining", "40"}, 9, 7.2, 7.2},
		"others used more":    {Options{AccountShare: 0.2}, []string{"X-RateLimit-Remaining", "5"}, 9, 1, 1},
	}, func(t *testing.T, test row) {
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
}

// TestCharge checks that a charge leaves so many requests fewer to all flows, and that its answer corrects the limiter.
func TestCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Burst: 10}) // of which 9 are used
		l.Charge(8, nil)
		granted(t, l, "a", Read)
		refusedUntil(t, l, "b", Read)
	})
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		l.Charge(3, &Response{Header: http.Header{"X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"9"}}, At: time.Now()})
		if got := l.Stats(); got.Limit != 60 || got.Tokens != 6 {
			t.Errorf("after a login that left 9 requests: %+v", got)
		}
	})
}
