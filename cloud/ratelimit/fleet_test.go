// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

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
