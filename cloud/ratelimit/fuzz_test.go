// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"net/http"
	"testing"
	"time"
)

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
