// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// spent returns a limiter of one request per second with a bucket of that size, whose tokens are used up.
func spent(t *testing.T, burst int) *Limiter {
	l := NewLimiter(Options{Limit: 60, Burst: burst})
	for range burst {
		send(t, l, granted(t, l, "first", Read), 200)
	}
	return l
}

var classOf = map[rune]Class{'m': Mutation, 'c': Creation, 'r': Read, 'p': Poll, 'l': Login}

// TestRetryAt checks the RetryAt of a refused flow, with one token a second and others in the queue: m, c, r, p and l are mutations,
// creations, reads, polls and logins. Mutations leave a tenth of the tokens to reads and a fifth to polls. A read or a poll waits for all
// calls before it, or for its share.
func TestRetryAt(t *testing.T) {
	for _, test := range []struct {
		queue   string
		class   rune
		seconds float64
	}{
		{"", 'r', 1}, {"", 'm', 1}, {"", 'p', 1}, {"", 'l', 1},
		{"rr", 'r', 3}, {"rr", 'm', 1}, {"rr", 'p', 3}, {"rr", 'l', 1},
		{"mm", 'r', 3}, {"mm", 'm', 3}, {"mm", 'p', 3}, {"mm", 'l', 1},
		{"ppp", 'r', 1}, {"ppp", 'm', 1}, {"ppp", 'p', 4}, {"ll", 'l', 3},
		{"mmrrp", 'p', 6},
		{"mmrrrrr", 'm', 3 + 0.2/0.7}, {"mmpppp", 'm', 3 + 0.4/0.7}, {"mmmmmmmmmmrp", 'm', 11 + 2/0.7},
		{"mmmmmmmmmmmmmmm", 'r', 11}, {"rrrrrrrr", 'p', 6}, {"mmmmmmmmmmmmmmmp", 'p', 11},
		{"mm", 'c', 3}, {"cc", 'm', 1}, {"cc", 'c', 3}, {"mcc", 'r', 4}, {"mmcr", 'p', 5}, {"mmcrrrrr", 'c', 4 + 0.3/0.7},
	} {
		t.Run(test.queue+" "+string(test.class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := spent(t, 1)
				for i, class := range test.queue {
					refusedUntil(t, l, strconv.Itoa(i), classOf[class])
				}
				told := time.Until(refusedUntil(t, l, "last", classOf[test.class])).Seconds()
				// A millisecond has passed since the token was spent.
				if want := test.seconds - 0.001; told < want-1e-6 || told > want+1e-6 {
					t.Errorf("RetryAt is after %v s, want %v", told, want)
				}
			})
		})
	}
}

// TestEarliestRetryAt checks the shortest waits: a tenth of a second, and half a second for a flow whose token is set aside while the
// maximum number of mutations is open. No RetryAt is before the gate opens.
func TestEarliestRetryAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := spent(t, 1)
		time.Sleep(950 * time.Millisecond)
		if told := time.Until(refusedUntil(t, l, "soon", Read)); told != minWait {
			t.Errorf("with a token due in 50 ms, RetryAt is after %v", told)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Limit: 60, MaxOpen: 1})
		open := granted(t, l, "open", Mutation)
		if told := time.Until(refusedUntil(t, l, "next", Mutation)); told != 500*time.Millisecond {
			t.Errorf("while another mutation is open, RetryAt is after %v", told)
		}
		send(t, l, open, 429, "Retry-After", "10")
		opens := l.Stats().ClosedTo
		if at := refusedUntil(t, l, "another", Read); at.Before(opens) {
			t.Errorf("RetryAt %v, the gate opens at %v", at, opens)
		}
		if at := refusedUntil(t, l, "next", Mutation); !at.Equal(opens) {
			t.Errorf("RetryAt of a flow with a token set aside is %v, the gate opens at %v", at, opens)
		}
		time.Sleep(time.Until(opens))
		granted(t, l, "next", Mutation)
	})
}

// TestWaitIsWoken checks when a waiting caller gets its reservation, and that it leaves no place if its context ends.
func TestWaitIsWoken(t *testing.T) {
	type row struct {
		limit          int
		releases, ends time.Duration // when the token is given back, and when the context ends
		earliest, most time.Duration
	}
	each(t, map[string]row{
		"in time":            {600, 0, time.Hour, 99 * time.Millisecond, 110 * time.Millisecond},
		"on a release":       {1, 2500 * time.Millisecond, time.Hour, 2500 * time.Millisecond, 3500 * time.Millisecond},
		"until it is called": {1, time.Hour, 3 * time.Second, 3 * time.Second, 3 * time.Second},
	}, func(t *testing.T, test row) {
		l := NewLimiter(Options{Limit: test.limit, Burst: 1})
		held := granted(t, l, "held", Read)
		if test.releases > 0 {
			time.AfterFunc(test.releases, held.Cancel)
		} else {
			send(t, l, held, 200)
		}
		time.AfterFunc(2*time.Second, func() { l.Stats() }) // gives up places whose owners stay away, and not this one
		ctx, cancel := context.WithTimeout(t.Context(), test.ends)
		defer cancel()
		start := time.Now()
		_, err := l.Wait(ctx, "waits", Read)
		if took := time.Since(start); !errors.Is(err, ctx.Err()) || took < test.earliest || took > test.most || l.Stats().Waiting[Read] != 0 {
			t.Errorf("waited %v, want %v to %v: %v", took, test.earliest, test.most, err)
		}
	})
}

// TestRankIsTheOrderOfService checks, for random queues, that a place's rank is the number of places that are served before it.
func TestRankIsTheOrderOfService(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	ready := func(*place) bool { return true }
	for range 300 {
		l := newLane()
		var places []*place
		for i := range 1 + random.IntN(12) {
			p := &place{key: placeKey{flow: strconv.Itoa(random.IntN(4)) + "/cluster", serial: i}, number: random.IntN(100)*100 + i}
			if random.IntN(8) == 0 {
				l.putBack(p)
			} else {
				l.push(p)
			}
			places = append(places, p)
			if random.IntN(5) == 0 {
				left := random.IntN(len(places))
				l.remove(places[left])
				places = append(places[:left:left], places[left+1:]...)
			}
		}
		ranks := map[*place]int{}
		for _, p := range places {
			ranks[p] = l.rank(p)
		}
		if l.size != len(places) {
			t.Fatalf("the size is %d, but %d places wait", l.size, len(places))
		}
		for i := range places {
			if p := l.take(ready); ranks[p] != i {
				t.Fatalf("a place is served after %d others, but its rank is %d: %+v", i, ranks[p], places)
			}
		}
		if l.take(ready) != nil || l.size != 0 || len(l.places)+len(l.turns) != 0 {
			t.Fatal("the lane is not empty at the end")
		}
	}
}

// TestClaimLogin checks that the reservations of a login are granted all at once, before other calls, and in turn for each client.
func TestClaimLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := spent(t, 5)
		refusedUntil(t, l, "read", Read)
		reservations, at := tryLogin(l, "a", 3)
		if told := time.Until(at).Round(time.Millisecond); reservations != nil || told < 2900*time.Millisecond || told > 3*time.Second {
			t.Fatalf("%d reservations, RetryAt in %v", len(reservations), told)
		}
		if _, at = tryLogin(l, "b", 1); time.Until(at) < 1900*time.Millisecond { // logins take turns
			t.Errorf("RetryAt of another login is in %v", time.Until(at))
		}
		time.Sleep(3500 * time.Millisecond)
		refusedUntil(t, l, "read", Read)
		if reservations, _ = tryLogin(l, "a", 3); reservations != nil {
			t.Error("a login got the tokens of another one")
		}
		time.Sleep(time.Second)
		if other, _ := tryLogin(l, "b", 1); len(other) != 1 {
			t.Errorf("%d reservations for a login of one request", len(other))
		}
		reservations, _ = tryLogin(l, "a", 3)
		if len(reservations) != 3 {
			t.Fatalf("%d reservations for a login of three requests", len(reservations))
		}
		if n := l.Stats().Waiting[Login]; n != 0 {
			t.Errorf("%d places are left", n)
		}
		for _, r := range reservations[:2] {
			if ok, err := l.Spend(r); !ok {
				t.Error(err)
			}
		}
		reservations[2].Cancel()
		if n := len(l.reservations); n != 1 { // the other login's
			t.Errorf("%d reservations are left", n)
		}
	})
}

// TestLoginWaits checks that a client that may wait gets the reservations when there are enough tokens, or when the gate opens after a 429. The
// error names what it waited for if its context ends.
func TestLoginWaits(t *testing.T) {
	type row struct {
		status      int // of the request before
		least, most time.Duration
	}
	each(t, map[string]row{
		"for tokens":   {200, 2900 * time.Millisecond, 4 * time.Second},
		"for the gate": {429, 30 * time.Second, 40 * time.Second},
	}, func(t *testing.T, test row) {
		l := spent(t, 5)
		time.Sleep(time.Second)
		send(t, l, granted(t, l, "last", Read), test.status, "Retry-After", "30")
		start := time.Now()
		reservations, err := l.WaitLogin(t.Context(), "a", 3)
		if waited := time.Since(start); err != nil || len(reservations) != 3 || waited < test.least || waited > test.most {
			t.Errorf("%v after %v", err, waited)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.WaitLogin(canceled, "a", 3); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// tryLogin returns the reservations of a login, or the time at which they are expected.
func tryLogin(l *Limiter, flow string, requests int) ([]*Reservation, time.Time) {
	reservations, err := l.ReserveLogin(flow, requests)
	at, _ := retryAt(err)
	return reservations, at
}
