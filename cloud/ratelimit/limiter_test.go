// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// each checks each row of a table, in a bubble of its own.
func each[Row any](t *testing.T, table map[string]Row, check func(*testing.T, Row)) {
	t.Helper()
	for name, row := range table {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, row) })
		})
	}
}

// granted reserves, and fails the test if the limiter refuses.
func granted(t *testing.T, l *Limiter, flow string, class Class) *Reservation {
	t.Helper()
	r, err := l.Reserve(flow, class)
	if err != nil {
		t.Fatalf("%s: %v", flow, err)
	}
	return r
}

// refusedUntil reserves, fails the test if the limiter grants, and returns RetryAt.
func refusedUntil(t *testing.T, l *Limiter, flow string, class Class) time.Time {
	t.Helper()
	_, err := l.Reserve(flow, class)
	at, ok := retryAt(err)
	if !ok {
		t.Fatalf("%s: %v", flow, err)
	}
	return at
}

// isWait reports whether an error is a *WaitError.
func isWait(err error) bool {
	_, ok := retryAt(err)
	return ok
}

// retryAt returns the RetryAt of a *WaitError.
func retryAt(err error) (time.Time, bool) {
	var wait *WaitError
	if !errors.As(err, &wait) {
		return time.Time{}, false
	}
	return wait.RetryAt, true
}

// send spends a reservation on a request that is answered at once.
func send(t *testing.T, l *Limiter, r *Reservation, status int, headers ...string) {
	t.Helper()
	if ok, err := l.Spend(r); !ok {
		t.Fatalf("the reservation cannot be spent: %v", err)
	}
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	time.Sleep(time.Millisecond)
	r.Settle(true, &Response{Limited: status == 429, Header: h, At: time.Now()})
}

// drain uses up the standard burst.
func drain(t *testing.T, l *Limiter) {
	for range 45 {
		send(t, l, granted(t, l, "drain", Read), 200)
	}
}

// TestPlacesAreGivenUp checks that a flow has one place however often it asks, and loses it to other flows if it does not come back.
func TestPlacesAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		drain(t, l)
		var last time.Time
		for i := range 100 {
			last = refusedUntil(t, l, strconv.Itoa(i%50), Read)
		}
		refusedUntil(t, l, "without a class", 0)
		if n := l.Stats().Waiting[Read]; n != 51 {
			t.Errorf("51 flows have %d places", n)
		}
		time.Sleep(time.Until(last.Add(placeGrace + time.Second)))
		if got := l.Stats(); got.Waiting[Read] != 0 || len(l.queue.aside) != 0 {
			t.Errorf("%d places and %d tokens are still held for absent flows", got.Waiting[Read], len(l.queue.aside))
		}
		drain(t, l) // any flow may take all tokens
	})
}

// TestReservationsEnd checks that a reservation takes a token until it is canceled, expires, or its request is not sent.
func TestReservationsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Burst: 10})
		start := l.Tokens()
		ended := func(what string, r *Reservation) {
			t.Helper()
			if ok, err := l.Spend(r); ok || err != nil || l.Stats().Open != 0 || l.Tokens() != start {
				t.Errorf("%s: spent again: %t, %v tokens of %v, %+v, %v", what, ok, l.Tokens(), start, l.Stats(), err)
			}
		}
		released := granted(t, l, "a", Mutation)
		if l.Tokens() != start-1 {
			t.Error("a granted reservation takes no token")
		}
		released.Cancel()
		released.Cancel()
		ended("canceled", released)
		expired := granted(t, l, "b", Mutation)
		time.Sleep(reservationLife + time.Second)
		ended("expired", expired)
		unsent := granted(t, l, "c", Mutation)
		if ok, err := l.Spend(unsent); !ok {
			t.Fatal(err)
		}
		unsent.Settle(false, nil)
		unsent.Cancel()
		ended("not sent", unsent)
		if s := l.Stats(); s.InFlight != 0 || s.Sent != 0 {
			t.Errorf("%+v", s)
		}
		var none *Reservation
		none.Cancel()
	})
}

// TestOpenMutations checks that at most four mutations are between reservation and answer, and that they do not delay reads. The end of one
// wakes the flow that waits for it, even if tokens were available all the time.
func TestOpenMutations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := ""
		l := NewLimiter(Options{Wake: func(flow string) { woken += flow }})
		var open []*Reservation
		for i := range minOpen {
			open = append(open, granted(t, l, strconv.Itoa(i), Mutation))
		}
		for i := range 100 {
			refusedUntil(t, l, "waiting-"+strconv.Itoa(i), Mutation)
		}
		granted(t, l, "read", Read).Cancel()
		granted(t, l, "poll", Poll).Cancel()
		time.Sleep(time.Second / 2)
		if synctest.Wait(); woken != "" {
			t.Errorf("woken: %s", woken)
		}
		send(t, l, open[0], 202)
		granted(t, l, "waiting-0", Mutation)
		refusedUntil(t, l, "waiting-1", Mutation)
		open[1].Cancel()
		granted(t, l, "waiting-1", Mutation)
		if woken != "waiting-0waiting-1" {
			t.Errorf("woken: %s", woken)
		}
	})
}

// TestRateLimitedClosesTheGate checks that a 429 stops all flows for as long as the portal asks, and a little longer.
func TestRateLimitedClosesTheGate(t *testing.T) {
	type row struct {
		headers []string
		least   time.Duration
		most    time.Duration
	}
	each(t, map[string]row{
		"seconds":         {[]string{"Retry-After", "7"}, 7 * time.Second, 8500 * time.Millisecond},
		"fraction":        {[]string{"Retry-After", "0.5"}, 500 * time.Millisecond, 700 * time.Millisecond},
		"date":            {[]string{"Retry-After", "Sat, 01 Jan 2000 00:00:09 GMT"}, 8 * time.Second, 11 * time.Second},
		"date, own clock": {[]string{"Retry-After", "Sun, 02 Jan 2000 00:00:09 GMT", "Date", "Sun, 02 Jan 2000 00:00:01 GMT"}, 8 * time.Second, 10 * time.Second},
		"reset":           {[]string{"X-RateLimit-Reset", "946684809"}, 8 * time.Second, 11 * time.Second},
		"nothing":         {nil, time.Second, 1500 * time.Millisecond},
		"nonsense":        {[]string{"Retry-After", "soon", "X-RateLimit-Reset", "-1"}, time.Second, 1500 * time.Millisecond},
		"forever":         {[]string{"Retry-After", "99999999999999"}, time.Hour, 73 * time.Minute},
	}, func(t *testing.T, test row) { // the bubble's clock starts at 2000-01-01 00:00:00 UTC
		l := NewLimiter(Options{Rand: seeded(1)})
		held := granted(t, l, "held", Mutation)
		send(t, l, granted(t, l, "a", Read), 429, test.headers...)
		closed := time.Now()
		if at := refusedUntil(t, l, "b", Read); at.Sub(closed) < test.least {
			t.Errorf("RetryAt is after %v", at.Sub(closed))
		}
		if ok, err := l.Spend(held); ok || !isWait(err) {
			t.Errorf("a reservation from before was spent: %v", err)
		}
		until := l.Stats().ClosedTo.Sub(closed)
		if until < test.least || until > test.most {
			t.Errorf("closed for %v, want %v to %v", until, test.least, test.most)
		}
		time.Sleep(time.Until(l.Stats().ClosedTo))
		granted(t, l, "b", Read)
		refusedUntil(t, l, "c", Read) // one flow at first
	})
}

// TestBackoffGrows checks that consecutive 429s back off exponentially.
func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Rand: seeded(1)})
		for i := range 10 {
			send(t, l, granted(t, l, "a", Read), 429, "Retry-After", "1")
			closed := time.Until(l.Stats().ClosedTo)
			if want := min(time.Second<<i, maxGateBackoff); closed < want || closed > want*5/4+10*time.Millisecond {
				t.Errorf("strike %d closes for %v, want about %v", i+1, closed, want)
			}
			time.Sleep(closed)
		}
		send(t, l, granted(t, l, "a", Read), 200)
		time.Sleep(5 * time.Second)
		send(t, l, granted(t, l, "a", Read), 429, "Retry-After", "1")
		if closed := time.Until(l.Stats().ClosedTo); closed > 1300*time.Millisecond {
			t.Errorf("after a success a 429 closes for %v", closed)
		}
	})
}

// TestRemainingIsFollowed checks that the limiter follows X-RateLimit-Remaining, so that people on the same account have tokens left.
func TestRemainingIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		send(t, l, granted(t, l, "a", Read), 200, "X-RateLimit-Remaining", "49")
		refusedFlow := "was promised a token"
		l.mu.Lock()
		l.queue.place(placeKey{flow: refusedFlow, class: Read}, nil, time.Now())
		l.mu.Unlock()
		r := granted(t, l, "a", Read) // the other flow gets a token set aside as well
		send(t, l, r, 200, "X-RateLimit-Remaining", "3")
		refusedUntil(t, l, refusedFlow, Read)
		time.Sleep(2 * time.Second)
		granted(t, l, refusedFlow, Read)
	})
}

// TestLimitIsLearned checks that the limiter learns the limit from X-RateLimit-Limit, and ignores invalid values.
func TestLimitIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		for _, test := range []struct {
			header string
			want   int
		}{
			{"0", 300}, {"1000001", 300}, {"1200", 1200}, {"0", 1200}, {"-5", 1200}, {"many", 1200}, {"99999999999", 1200},
			{"1000000", 1_000_000}, {"60", 60}, {"1", 1},
		} {
			send(t, l, granted(t, l, "a", Read), 200, "X-RateLimit-Limit", test.header)
			if got := l.Stats(); got.Limit != test.want || got.LimitKnown != (test.want != 300) {
				t.Errorf("%q makes the limit %d, want %d: known %t", test.header, got.Limit, test.want, got.LimitKnown)
			}
		}
	})
}

// FuzzHeader checks that the limiter keeps its bounds and opens again for any rate-limit headers.
func FuzzHeader(f *testing.F) {
	f.Add(429, "300", "0", "1700000000", "5", "")
	f.Add(200, "1200", "17", "", "", "Sat, 01 Jan 2000 00:00:00 GMT")
	f.Add(503, "-1", "NaN", "1e400", "Sat, 01 Jan 2000 00:00:00 GMT", "x")
	f.Add(429, "1", "9223372036854775807", "9223372036854775807", "NaN", "")
	f.Fuzz(func(t *testing.T, status int, limit, remaining, reset, after, date string) {
		h := http.Header{}
		h.Set("X-RateLimit-Limit", limit)
		h.Set("X-RateLimit-Remaining", remaining)
		h.Set("X-RateLimit-Reset", reset)
		h.Set("Retry-After", after)
		h.Set("Date", date)
		now := time.Now()
		if wait, _ := RetryAfter(h, now, true); wait < 0 || wait > maxGateClosed {
			t.Errorf("wait %v", wait)
		}
		l := NewLimiter(Options{Rand: seeded(1)})
		for range 3 {
			r, err := l.Reserve("a", Read)
			if err != nil {
				break
			}
			if ok, _ := l.Spend(r); !ok {
				t.Fatal("the reservation was not spent")
			}
			r.Settle(true, &Response{Limited: status == 429, Header: h, At: time.Now()})
		}
		s := l.Stats()
		most := max(l.bucket.capacity(), standardBurst)
		if s.Tokens > most || s.Tokens < -standardBurst-3 || s.Limit < 1 || s.Limit > MaxLimit || s.Share < minShare || s.Share > 1 ||
			l.bucket.burst > MaxLimit {
			t.Errorf("%+v", s)
		}
		if closed := s.ClosedTo.Sub(now); closed > 2*maxGateClosed {
			t.Errorf("closed for %v", closed)
		}
	})
}
