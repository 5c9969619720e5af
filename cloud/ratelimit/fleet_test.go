// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

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

// TestNobodyIsStarved checks that polls get a fifth of the tokens, and reads a tenth, while others wait all the time.
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
		if share := served[test.last] / total; share < test.least || share > test.most || total < 2900 {
			t.Errorf("%.2f of %.0f tokens of 3000: %v", share, total, served)
		}
	})
}

// compete lets 100 flows of each class take as many tokens as they can for a time, and returns how many each class got.
func compete(l *Limiter, duration time.Duration, classes ...Class) map[Class]float64 {
	var mu sync.Mutex
	served := map[Class]float64{}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for _, class := range classes {
		for i := range 100 {
			group.Go(func() {
				for !closed(stop) {
					if l.tryCall(class.String()+strconv.Itoa(i), class) {
						mu.Lock()
						served[class]++
						mu.Unlock()
					}
				}
			})
		}
	}
	time.Sleep(duration)
	close(stop)
	group.Wait()
	return served
}

// TestFlowsTakeTurns checks that a flow with a hundred calls does not delay a flow with one call.
func TestFlowsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		for range 45 {
			l.tryCall("warm-up", Read)
		}
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				r, err := l.Wait(t.Context(), "greedy", Read)
				if err != nil {
					t.Error(err)
				}
				if ok, _ := l.Spend(r); ok {
					r.Settle(true, nil)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		for !l.tryCall("modest", Read) {
		}
		if waited := time.Since(start); waited > 2*time.Second {
			t.Errorf("the modest flow waited %v behind the greedy one", waited)
		}
		group.Wait()
	})
}
