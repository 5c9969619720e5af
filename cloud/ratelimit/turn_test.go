// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTenantsTakeTurns checks the order in which two tenants get tokens, one of which has many clusters and came first: changes before
// creations, and within a class one cluster of each tenant in turn.
func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var woken []string
		l := NewLimiter(Options{Limit: 60, Burst: 1, Wake: func(flow string) { woken = append(woken, flow) }})
		send(t, l, granted(t, l, "drain", Read), 200)
		for _, want := range []struct {
			flow  string
			class Class
		}{
			{"big/1", Creation}, {"big/2", Creation}, {"big/3", Creation}, {"small/1", Creation},
			{"big/4", Mutation}, {"big/5", Mutation}, {"small/2", Mutation},
		} {
			at := refusedUntil(t, l, want.flow, want.class)
			if told := time.Until(at).Round(10 * time.Millisecond); want.flow == "big/1" && told != 6*time.Second { // 5 s after its turn
				t.Errorf("RetryAt of a flow that is woken is after %v", told)
			}
		}
		for i := range 7 {
			time.Sleep(1010 * time.Millisecond)
			synctest.Wait()
			if len(woken) != i+1 {
				t.Fatalf("after %d s, these were woken: %v", i+1, woken)
			}
			class := Creation
			if i < 3 {
				class = Mutation
			}
			send(t, l, granted(t, l, woken[i], class), 202)
		}
		if got, want := strings.Join(woken, " "), "big/4 small/2 big/5 big/1 small/1 big/2 big/3"; got != want {
			t.Errorf("tokens went to %s, want %s", got, want)
		}
	})
}

// TestTokenIsKeptForAMoment checks that a woken flow has two seconds to come, and that it is served first if it comes later.
func TestTokenIsKeptForAMoment(t *testing.T) {
	for late, kept := range map[time.Duration]bool{1900 * time.Millisecond: true, 2100 * time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			woken := 0
			l := NewLimiter(Options{Limit: 6, Burst: 1, Wake: func(flow string) {
				if flow == "a" {
					woken++
				}
			}})
			send(t, l, granted(t, l, "drain", Read), 200)
			refusedUntil(t, l, "a", Read)
			time.Sleep(10*time.Second + late)
			synctest.Wait()
			if woken != 1 {
				t.Fatalf("woken %d times", woken)
			}
			r, err := l.Reserve("b", Read)
			if got := err != nil; got != kept {
				t.Errorf("%v late, the token is kept: %t", late, got)
			}
			if !kept {
				send(t, l, r, 200)
				refusedUntil(t, l, "c", Read)
				refusedUntil(t, l, "a", Read)
				time.Sleep(10100 * time.Millisecond)
			}
			granted(t, l, "a", Read)
		})
	}
}

// TestOpenFollowsLatency checks how many creations may be open after others were answered in a given time: as many as a rate of five a
// second needs, but at least four, and at most 20 or the number in the options. A request that was not written does not count.
func TestOpenFollowsLatency(t *testing.T) {
	type row struct {
		maxOpen int
		takes   time.Duration
		unsent  bool
		want    int
	}
	each(t, map[string]row{
		"fast":              {0, 100 * time.Millisecond, false, 4},
		"a second":          {0, time.Second, false, 5},
		"a minute":          {0, 59 * time.Second, false, 20},
		"one allowed":       {1, 3 * time.Second, false, 1},
		"not written":       {0, 3 * time.Second, true, 4},
		"just above a slot": {0, 3010 * time.Millisecond, false, 16},
	}, func(t *testing.T, test row) {
		l := NewLimiter(Options{Limit: 300, MaxOpen: test.maxOpen})
		for i := range 60 {
			r := granted(t, l, strconv.Itoa(i), Creation)
			if ok, err := l.Spend(r); !ok {
				t.Fatal(err)
			}
			time.Sleep(test.takes)
			r.Settle(!test.unsent, nil)
		}
		time.Sleep(20 * time.Second)
		count := 0
		for _, err := l.Reserve("0", Creation); err == nil; _, err = l.Reserve(strconv.Itoa(count), Creation) {
			count++
		}
		if count != test.want {
			t.Errorf("%d creations may be open, want %d", count, test.want)
		}
	})
}

// TestSlowCreationsHoldUpNoMutation has as many creations unanswered as may be. A scale of a running cluster is granted at once, and no further
// creation. Mutations that are answered at once do not make the limiter believe that creations are, too.
func TestSlowCreationsHoldUpNoMutation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		for i := range minOpen {
			granted(t, l, "new-"+strconv.Itoa(i), Creation)
		}
		refusedUntil(t, l, "new", Creation)
		for i := range 20 {
			r := granted(t, l, "running-"+strconv.Itoa(i), Mutation)
			refusedUntil(t, l, "new", Creation)
			send(t, l, r, 202)
			time.Sleep(time.Second)
		}
		if s := l.Stats(); s.Open != minOpen {
			t.Errorf("%d are open", s.Open)
		}
	})
}

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

// tryCall reserves once and spends the reservation, or sleeps until RetryAt.
func (l *Limiter) tryCall(flow string, class Class) bool {
	r, err := l.Reserve(flow, class)
	if err != nil {
		at, _ := retryAt(err)
		time.Sleep(time.Until(at))
		return false
	}
	if ok, _ := l.Spend(r); ok {
		time.Sleep(40 * time.Millisecond)
		r.Settle(true, &Response{Header: http.Header{}, At: time.Now()})
		return true
	}
	return false
}

// TestNobodyIsStarved checks that polls get a fifth of the tokens, and reads a tenth, while others wait all the time. Calls that wait do not raise
// the rate of 300 a minute after a burst of 45.
func TestNobodyIsStarved(t *testing.T) {
	type row struct {
		busy        []Class
		last        Class
		least, most float64 // share of the tokens
	}
	each(t, map[string]row{
		"polls beside mutations":           {[]Class{Mutation}, Poll, 0.19, 0.25},
		"polls beside reads":               {[]Class{Read}, Poll, 0.19, 0.25},
		"reads beside mutations and polls": {[]Class{Mutation, Poll}, Read, 0.09, 0.15},
	}, func(t *testing.T, test row) {
		l := NewLimiter(Options{Limit: standardLimit, MaxOpen: 1000})
		served := compete(l, 10*time.Minute, append(test.busy, test.last)...)
		total := served[Mutation] + served[Poll] + served[Read]
		if share := served[test.last] / total; share < test.least || share > test.most || total < 2900 || total > 3045 {
			t.Errorf("%.2f of %.0f tokens of 3000: %v", share, total, served)
		}
	})
}

// compete lets 100 flows of each class take as many tokens as they can for a time, and returns how many each class got.
func compete(l *Limiter, duration time.Duration, classes ...Class) map[Class]float64 {
	var mu sync.Mutex
	served := map[Class]float64{}
	var group sync.WaitGroup
	end := time.Now().Add(duration)
	for _, class := range classes {
		for i := range 100 {
			group.Go(func() {
				for time.Now().Before(end) {
					if l.tryCall(class.String()+strconv.Itoa(i), class) {
						mu.Lock()
						served[class]++
						mu.Unlock()
					}
				}
			})
		}
	}
	group.Wait()
	return served
}
