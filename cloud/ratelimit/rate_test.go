// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// near compares figures that are computed in steps.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// TestBurst checks how many requests may be made at once after an idle hour: nine tenths of the documented burst, until answers say what
// remains. Then it is nine tenths of the most that remained, up to the burst of the limit, because what remains may be the minute's. A 429
// says only that nothing remains now.
func TestBurst(t *testing.T) {
	type row struct {
		options   Options
		remaining []string // of answers in this order. A "429" is a refusal, with nothing remaining. "9 of 60" names the limit
		want      float64
	}
	each(t, map[string]row{
		"no headers":                 {Options{}, []string{""}, 45},
		"a burst of 2":               {Options{Burst: 2}, []string{""}, 2},
		"standard tier":              {Options{}, []string{"49"}, 45},
		"a small account":            {Options{}, []string{"9"}, 9},
		"nothing is left":            {Options{}, []string{"0"}, 1},
		"others use less again":      {Options{}, []string{"3", "9", "5"}, 9},
		"of the minute":              {Options{}, []string{"299"}, 45},
		"a higher tier":              {Options{}, []string{"149 of 900"}, 135},
		"a tier without its limit":   {Options{}, []string{"149"}, 45},
		"a tier that ends":           {Options{}, []string{"149 of 900", "59 of 60"}, 9},
		"more than the options":      {Options{Burst: 5}, []string{"9"}, 9},
		"refused at first":           {Options{}, []string{"429"}, 45},
		"refused by a small account": {Options{}, []string{"429 of 60"}, 9},
		"refused by a large account": {Options{}, []string{"429 of 900"}, 45},
		"refused in between":         {Options{}, []string{"9", "429"}, 9},
		"half of a higher tier":      {Options{AccountShare: 0.5}, []string{"149 of 900"}, 67.5},
		"less than one of account":   {Options{AccountShare: 0.1}, []string{"9"}, 1},
	}, func(t *testing.T, test row) {
		l := NewLimiter(test.options)
		for _, remaining := range test.remaining {
			status := 200
			remaining, limit, _ := strings.Cut(remaining, " of ")
			if remaining == "429" {
				status, remaining = 429, "0"
			}
			r := granted(t, l, "a", Read)
			send(t, l, r, status, "X-RateLimit-Remaining", remaining, "Retry-After", "1", "X-RateLimit-Limit", limit)
			if got := l.Stats().Tokens; got > l.bucket.capacity() {
				t.Errorf("%v tokens in a bucket of %v", got, l.bucket.capacity())
			}
			time.Sleep(time.Hour)
		}
		if got := l.Stats().Tokens; got != test.want {
			t.Errorf("%v tokens, want %v", got, test.want)
		}
	})
}

// TestShareOfTheLimit checks that each 429 takes three tenths of the rate, but never all of it, and how the rate recovers.
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
}

// TestRemainingIsOfTheAccount checks that requests in flight and a margin for others are taken from what remains, which never adds tokens.
func TestRemainingIsOfTheAccount(t *testing.T) {
	for _, test := range []struct {
		remaining string
		onTheWay  int
		want      float64
	}{
		{"30", 0, 25}, {"30", 3, 22}, {"3", 1, -3}, {"50", 0, 43}, {"1000", 0, 43}, {"0", 40, -45}, {"-1", 0, 43}, {"", 0, 43},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(Options{})
			send(t, l, granted(t, l, "first", Read), 200, "X-RateLimit-Remaining", "50")
			for i := range test.onTheWay {
				if ok, err := l.Spend(granted(t, l, strconv.Itoa(i), Read)); !ok {
					t.Fatal(err)
				}
			}
			send(t, l, granted(t, l, "a", Read), 200, "X-RateLimit-Remaining", test.remaining)
			want := min(test.want, 43-float64(test.onTheWay)+0.01)
			if got := l.Stats().Tokens; math.Abs(got-want) > 0.02 {
				t.Errorf("remaining %q with %d requests in flight: %v tokens, want %v", test.remaining, test.onTheWay, got, want)
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

// TestLateRefusal checks that a 429 to a request from before the gate closed can extend the closing time, but is no other strike.
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
		if wait := time.Until(got.ClosedTo); wait != 20*time.Second || got.Share != share || got.Limited != 2 || got.Sent != 2 {
			t.Errorf("closed for %v, the share fell from %v to %v after %d refusals of %d requests", wait, share, got.Share, got.Limited, got.Sent)
		}
		time.Sleep(20 * time.Second)
		send(t, l, granted(t, l, "a", Read), 429)
		if wait := time.Until(l.Stats().ClosedTo); wait < 2*time.Second || wait > 2400*time.Millisecond {
			t.Errorf("the second strike closes for %v", wait)
		}
	})
}

// TestAccountShare checks that a limiter with a share of the account uses that part of the rate and of the burst, whether its options or
// the portal name the limit. X-RateLimit-Remaining is about the whole account.
func TestAccountShare(t *testing.T) {
	type row struct {
		options            Options
		headers            []string // headers of the answer to the first request
		burst, left, after float64  // tokens at first, after the answer, and 3 s later
	}
	each(t, map[string]row{
		"half":                {Options{AccountShare: 0.5}, nil, 22.5, 21.5, 22.5},
		"less than a request": {Options{AccountShare: 0.01}, nil, 1, 0, 0.15},
		"the portal's limit":  {Options{AccountShare: 0.2}, []string{"X-RateLimit-Limit", "120", "X-RateLimit-Remaining", "7"}, 9, 1.4, 1.4},
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
