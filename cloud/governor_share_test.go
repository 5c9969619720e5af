// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// TestAccountShare checks that a governor with a share of the account uses that part of the rate and of the burst, whoever names the
// limit: its options, or the portal. What the portal says is left is the whole account's, so a governor that has used
// little less than its share may go on until the account's margin is reached.
func TestAccountShare(t *testing.T) {
	for name, test := range map[string]struct {
		options            GovernorOptions
		headers            []string // of the answer to the first request
		burst, left, after float64  // tokens at first, after the answer, and 3 s later
	}{
		"all":                 {GovernorOptions{}, nil, 45, 44, 45},
		"half":                {GovernorOptions{AccountShare: 0.5}, nil, 22.5, 21.5, 22.5},
		"a fifth":             {GovernorOptions{AccountShare: 0.2}, nil, 9, 8, 9},
		"of a higher tier":    {GovernorOptions{AccountShare: 0.2, Limit: 900, Burst: 150}, nil, 27, 26, 27},
		"less than a request": {GovernorOptions{AccountShare: 0.01}, nil, 1, 0, 0.15},
		"the portal's limit":  {GovernorOptions{AccountShare: 0.2}, []string{"X-RateLimit-Limit", "120", "X-RateLimit-Remaining", "7"}, 9, 2, 3.2},
		"plenty is left":      {GovernorOptions{AccountShare: 0.2}, []string{"X-RateLimit-Remaining", "40"}, 9, 8, 9},
		"others used more":    {GovernorOptions{AccountShare: 0.2}, []string{"X-RateLimit-Remaining", "5"}, 9, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGovernor(test.options)
				if got := g.Stats().Tokens; got != test.burst {
					t.Errorf("%v tokens at first, want %v", got, test.burst)
				}
				send(t, g, granted(t, g, "a", Read), 200, test.headers...) // takes a millisecond
				if got := g.Stats().Tokens; math.Abs(got-test.left) > 0.03 {
					t.Errorf("%v tokens after the answer, want %v", got, test.left)
				}
				time.Sleep(3 * time.Second)
				if got := g.Stats().Tokens; math.Abs(got-test.after) > 0.03 {
					t.Errorf("%v tokens 3 s later, want %v", got, test.after)
				}
			})
		})
	}
}

// TestShareIsNotExplored checks that a governor with a share of the account does not look for a higher tier: it would find it with the
// tokens of others. A refusal takes three tenths of its share.
func TestShareIsNotExplored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{AccountShare: 0.02})
		held := granted(t, g, "held", Read)
		for range 100 {
			refusedUntil(t, g, "waits", Read)
			time.Sleep(100 * time.Millisecond)
		}
		if got := g.Stats(); !near(got.Share, 0.02) || got.LimitTold {
			t.Errorf("after 10 s with a queue the share is %v", got.Share)
		}
		send(t, g, held, 429, "Retry-After", "1")
		if got := g.Stats(); !near(got.Share, 0.014) {
			t.Errorf("after a refusal the share is %v", got.Share)
		}
	})
}

// TestShareOfEveryAccount checks that all accounts of a pool are shared alike, and that the requests per minute which an identity
// names are the whole account's.
func TestShareOfEveryAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := Pool{Options: GovernorOptions{AccountShare: 0.5}}
		o := &office{}
		for email, limit := range map[string]int{"a@portal.test": 0, "b@portal.test": 600} {
			config := testConfig(o)
			config.Email, config.RequestsPerMinute = email, limit
			g := proved(t, &pool, config).Governor()
			before := g.Stats()
			time.Sleep(100 * time.Millisecond)
			want := float64(before.Limit) / 60 / 10 / 2
			if got := g.Stats().Tokens - before.Tokens; !near(before.Share, 0.5) || !near(got, want) || limit > 0 && before.Limit != limit {
				t.Errorf("with %d a minute, %v tokens come in a tenth of a second, want %v: %+v", limit, got, want, before)
			}
		}
	})
}
