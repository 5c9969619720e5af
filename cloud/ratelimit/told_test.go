// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// spent returns a limiter of one request per second whose only token is used up.
func spent(t *testing.T) *Limiter {
	l := NewLimiter(Options{Limit: 60, Burst: 1})
	send(t, l, granted(t, l, "first", Read), 200)
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
		{"mmrrp", 'p', 6}, {"mrr", 'r', 4},
		{"mmrrrrr", 'm', 3 + 0.2/0.7}, {"mmpppp", 'm', 3 + 0.4/0.7}, {"mmmmmmmmmmrp", 'm', 11 + 2/0.7},
		{"mmmmmmmmmmmmmmm", 'r', 11}, {"mmmmmmmmmmmmmmm", 'p', 6}, {"rrrrrrrr", 'p', 6}, {"mmmmmmmmmmmmmmmp", 'p', 11},
		{"mmmmmmmmmmmmmmmmmmmmmmmr", 'r', 21},
		{"mm", 'c', 3}, {"cc", 'm', 1}, {"cc", 'c', 3}, {"mcc", 'r', 4}, {"mmcr", 'p', 5}, {"mmcrrrrr", 'c', 4 + 0.3/0.7},
	} {
		t.Run(test.queue+" "+string(test.class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := spent(t)
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
		l := spent(t)
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

// TestWaitIsWoken checks that a caller of Wait gets its reservation when its token is due, or within a second after another caller cancels
// one.
func TestWaitIsWoken(t *testing.T) {
	type row struct {
		limit          int
		releases       bool
		earliest, most time.Duration
	}
	each(t, map[string]row{
		"in time":      {600, false, 99 * time.Millisecond, 110 * time.Millisecond},
		"on a release": {1, true, 2500 * time.Millisecond, 3500 * time.Millisecond},
	}, func(t *testing.T, test row) {
		l := NewLimiter(Options{Limit: test.limit, Burst: 1})
		held := granted(t, l, "held", Read)
		if test.releases {
			time.AfterFunc(2500*time.Millisecond, held.Cancel)
		} else {
			send(t, l, held, 200)
		}
		start := time.Now()
		if _, err := l.Wait(t.Context(), "waits", Read); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < test.earliest || took > test.most {
			t.Errorf("waited %v, want %v to %v", took, test.earliest, test.most)
		}
	})
}

// TestAccountByDefault checks the defaults for an account without a valid description.
func TestAccountByDefault(t *testing.T) {
	for _, nothing := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			l := NewLimiter(Options{Limit: nothing, Burst: nothing, MaxOpen: nothing})
			if s := l.Stats(); s.Limit != standardLimit || s.LimitKnown || s.Tokens != 45 {
				t.Errorf("%d: %+v", nothing, s)
			}
			for i := range 4 {
				granted(t, l, strconv.Itoa(i), Mutation)
			}
			refusedUntil(t, l, "fifth", Mutation)
		})
	}
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
