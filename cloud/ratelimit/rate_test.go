// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// near compares figures that are computed in steps.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// TestExploration checks that the rate grows by a twentieth each second while requests wait and no limit is known, up to 10,000 requests a
// minute. It does not grow while no request waits, or for a time without calls.
func TestExploration(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		waits   bool
		every   time.Duration
		seconds int
		want    float64
	}{
		"while a request waits":      {Options{Burst: 1}, true, 100 * time.Millisecond, 1, exploration},
		"for two seconds":            {Options{Burst: 1}, true, 100 * time.Millisecond, 2, exploration * exploration},
		"not for a pause":            {Options{Burst: 1}, true, 4 * time.Second, 4, exploration},
		"to the most":                {Options{Burst: 1}, true, 100 * time.Millisecond, 100, maxExplored / standardLimit},
		"nobody waits":               {Options{Burst: 1}, false, 100 * time.Millisecond, 10, 1},
		"not beyond a limit given":   {Options{Burst: 1, Limit: 300}, true, 100 * time.Millisecond, 10, 1},
		"nor one that is very large": {Options{Burst: 1, Limit: 60_000}, true, 100 * time.Millisecond, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLimiter(test.options)
				granted(t, l, "held", Read) // so that no token is free
				for end := time.Now().Add(time.Duration(test.seconds) * time.Second); ; time.Sleep(test.every) {
					if test.waits {
						_, _ = l.Reserve("waits", Read)
					}
					if !time.Now().Before(end) {
						break
					}
				}
				if got := l.Stats().Share; !near(got, test.want) {
					t.Errorf("the share of the limit is %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestShareOfTheLimit checks the cost of 429s: each takes three tenths of the rate, but never all of it. The rate recovers by a thousandth
// of the limit each second. A refusal that ends an exploration, or that answers a request from before the gate closed, costs nothing.
func TestShareOfTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Limit: 300})
		want := 1.0
		for range 12 {
			since := time.Now()
			r := granted(t, l, "a", Read)
			send(t, l, r, 429, "Retry-After", "1")
			want = max(min(want+time.Since(since).Seconds()*shareGrowth, 1)*shareCut, minShare)
			closed := l.Stats().ClosedTo
			if got := l.Stats(); math.Abs(got.Share-want) > 0.001 || got.Tokens != 1 {
				t.Fatalf("after a 429 the share is %v with %v tokens, want %v and one", got.Share, got.Tokens, want)
			}
			time.Sleep(time.Until(closed))
			if got := l.Stats(); math.Abs(got.Share-want) > 0.001 || got.Tokens != 1 {
				t.Fatalf("while the gate is closed the share grows to %v, and the tokens to %v", got.Share, got.Tokens)
			}
		}
		if want != minShare {
			t.Errorf("after twelve refusals the share is %v", want)
		}
		before := l.Stats()
		time.Sleep(100 * time.Second)
		if got := l.Stats(); !near(got.Share, before.Share+100*shareGrowth) || got.Tokens < 20 {
			t.Errorf("after 100 s the share is %v with %v tokens, it was %v", got.Share, got.Tokens, before.Share)
		}
		time.Sleep(time.Hour)
		if got := l.Stats(); got.Share != 1 || got.Tokens != 45 {
			t.Errorf("after an hour the share is %v with %v tokens", got.Share, got.Tokens)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Burst: 1})
		held := granted(t, l, "held", Read)
		for range 20 {
			refusedUntil(t, l, "waits", Read)
			time.Sleep(100 * time.Millisecond)
		}
		send(t, l, held, 429, "Retry-After", "1")
		if got := l.Stats(); got.Share != 1 || !got.LimitKnown {
			t.Errorf("a refusal that ends an exploration leaves a share of %v", got.Share)
		}
	})
}

// TestRefill checks that tokens are refilled at the rate of the limit, up to nine tenths of the burst.
func TestRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Limit: 120, Burst: 20}) // two a second
		for range 18 {
			send(t, l, granted(t, l, "a", Read), 200) // takes a millisecond
		}
		for second, want := range []float64{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 18, 18} {
			if got := l.Stats().Tokens; got < want || got > min(want+0.04, 18) {
				t.Errorf("after %d s there are %v tokens, want %v", second, got, want)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestRemainingIsOfTheAccount checks the tokens after an answer with X-RateLimit-Remaining. The requests in flight will use a part of them,
// and a margin stays for others. The answer never adds tokens, and takes at most a burst.
func TestRemainingIsOfTheAccount(t *testing.T) {
	for _, test := range []struct {
		remaining string
		onTheWay  int
		want      float64
	}{
		{"30", 0, 25}, {"30", 3, 22}, {"5", 0, 0}, {"3", 1, -3}, {"0", 0, -5}, {"45", 0, 40}, {"50", 0, 44}, {"1000", 0, 44},
		{"0", 40, -45}, {"-1", 0, 44}, {"", 0, 44},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(Options{Limit: 60, Burst: 50})
			for i := range test.onTheWay {
				if ok, err := l.Spend(granted(t, l, strconv.Itoa(i), Read)); !ok {
					t.Fatal(err)
				}
			}
			send(t, l, granted(t, l, "a", Read), 200, "X-RateLimit-Remaining", test.remaining)
			want := min(test.want, 44-float64(test.onTheWay)+0.001)
			if got := l.Stats().Tokens; math.Abs(got-want) > 0.01 {
				t.Errorf("remaining %q with %d requests in flight: %v tokens, want %v", test.remaining, test.onTheWay, got, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // a small burst limits the reduction
		l := NewLimiter(Options{Limit: 60, Burst: 2})
		for range 5 {
			if ok, err := l.Spend(granted(t, l, "a", Read)); !ok {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		send(t, l, granted(t, l, "a", Read), 200, "X-RateLimit-Remaining", "0")
		if got := l.Stats().Tokens; got != -2 {
			t.Errorf("%v tokens, want no fewer than -2", got)
		}
	})
}

// TestLimitIsBelieved checks which of the portal's limits the limiter adopts.
func TestLimitIsBelieved(t *testing.T) {
	for limit, want := range map[string]int{"1": 1, "1000000": 1_000_000, "1000001": 300, "0": 300} {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(Options{Burst: 1})
			held := granted(t, l, "held", Read)
			for range 20 {
				refusedUntil(t, l, "waits", Read)
				time.Sleep(100 * time.Millisecond)
			}
			send(t, l, held, 200, "X-RateLimit-Limit", limit)
			got := l.Stats()
			if got.Limit != want || got.LimitKnown != (want != 300) || got.LimitKnown != (got.Share == 1) {
				t.Errorf("limit %s: %+v", limit, got)
			}
		})
	}
}

// TestJitter checks that a gate stays closed up to a fifth longer than the portal asks, by a random part.
func TestJitter(t *testing.T) {
	least, most := 1.0, 0.0
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(Options{Rand: seeded(seed)})
			send(t, l, granted(t, l, "a", Read), 429, "Retry-After", "100")
			added := time.Until(l.Stats().ClosedTo).Seconds()/100 - 1
			least, most = min(least, added), max(most, added)
		})
	}
	if least < 0 || least > 0.04 || most < 0.16 || most > gateJitter {
		t.Errorf("between %v and %v are added", least, most)
	}
}

// TestLateRefusal checks that a 429 to a request from before the gate closed can extend the closing time, but does not count as another
// strike.
func TestLateRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Limit: 300, Rand: seeded(1)})
		first, second := granted(t, l, "a", Read), granted(t, l, "b", Read)
		if ok, err := l.Spend(second); !ok {
			t.Fatal(err)
		}
		send(t, l, first, 429, "Retry-After", "5")
		share := l.Stats().Share
		second.Settle(true, &Response{Limited: true, Header: map[string][]string{"Retry-After": {"20"}}, At: time.Now()})
		got := l.Stats()
		if wait := time.Until(got.ClosedTo); wait != 20*time.Second || got.Share != share || got.Limited != 2 {
			t.Errorf("closed for %v, the share fell from %v to %v after %d refusals", wait, share, got.Share, got.Limited)
		}
		time.Sleep(20 * time.Second)
		send(t, l, granted(t, l, "a", Read), 429)
		if wait := time.Until(l.Stats().ClosedTo); wait < 2*time.Second || wait > 2400*time.Millisecond {
			t.Errorf("the second strike closes for %v", wait)
		}
	})
}

// TestRequestsOnTheWayAreSubtracted checks that requests in flight are subtracted from X-RateLimit-Remaining.
func TestRequestsOnTheWayAreSubtracted(t *testing.T) {
	b := newBucket(300, standardBurst, 1, time.Now())
	b.follow(20, 4)
	if want := 20 - 4 - b.margin(); b.level != want {
		t.Errorf("%v tokens, want %v", b.level, want)
	}
	b.follow(49, 0)
	if want := 20 - 4 - b.margin(); b.level != want {
		t.Errorf("an answer adds tokens: %v, want %v", b.level, want)
	}
	b.follow(0, 1000)
	if b.level != -b.burst {
		t.Errorf("%v tokens, want %v", b.level, -b.burst)
	}
}

// TestGateCountsStrikes checks that consecutive 429s double the pause, that 429s to earlier requests do not, and that a success resets the
// count.
func TestGateCountsStrikes(t *testing.T) {
	now := time.Now()
	g := gate{rand: seeded(1)}
	for strike, least := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if news := g.close(now, now, 0); !news || g.refusals != strike+1 {
			t.Errorf("strike %d: news %t, %d strikes", strike, news, g.refusals)
		}
		if closed := g.until.Sub(now); closed < least || closed > least+least/4 {
			t.Errorf("strike %d closes for %v", strike, closed)
		}
		if news := g.close(now.Add(-time.Second), now, 0); news || g.refusals != strike+1 {
			t.Errorf("strike %d: an old request is news", strike)
		}
		now = g.until.Add(time.Second)
	}
}
