// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// portalLimit is the rate limit of the specification, for tests in a synctest bubble: a token bucket of 300 requests a minute with a burst
// of 50, shared by all users of the account.
type portalLimit struct {
	http.Handler
	latency time.Duration // of every request, in each direction
	headers bool          // X-RateLimit-Remaining on every answer, not only on 429

	mu       sync.Mutex
	tokens   float64
	at       time.Time
	requests int
	refused  int
}

func newPortalLimit(latency time.Duration, h http.Handler) *portalLimit {
	return &portalLimit{Handler: h, latency: latency, tokens: 50, at: time.Now()}
}

// take takes one token of the account, for a request or for a neighbour.
func (p *portalLimit) take() (bool, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.tokens = min(50, p.tokens+now.Sub(p.at).Seconds()*5)
	p.at = now
	if p.tokens < 1 {
		return false, 0
	}
	p.tokens--
	return true, int(p.tokens)
}

// RoundTrip implements http.RoundTripper in process, so that the bubble's time applies.
func (p *portalLimit) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(p.latency)
	ok, left := p.take()
	p.mu.Lock()
	p.requests++
	if !ok {
		p.refused++
	}
	p.mu.Unlock()
	w := httptest.NewRecorder()
	if ok {
		if p.headers {
			w.Header().Set("X-RateLimit-Limit", "300")
			w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(left))
		}
		p.ServeHTTP(w, r)
	} else {
		w.Header().Set("X-RateLimit-Limit", "300")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Unix()+1, 10))
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"code":"RATE_LIMITED","message":"slow down","requestId":"r"}}`)
	}
	time.Sleep(p.latency)
	return w.Result(), nil
}

// neighbour uses the same account, on average perSecond times a second, until stop is closed. It returns how many of its requests were
// refused.
func (p *portalLimit) neighbour(random *rand.Rand, perSecond float64, stop <-chan struct{}) (refused int) {
	for !closed(stop) {
		time.Sleep(time.Duration(random.ExpFloat64() / perSecond * float64(time.Second)))
		if ok, _ := p.take(); !ok {
			refused++
		}
	}
	return refused
}

var quiet = log.New(io.Discard, "", 0)

// testConfig returns a valid configuration for a portal behind a transport.
func testConfig(transport http.RoundTripper) Config {
	return Config{BaseURL: "https://portal.test", Email: "robot@example.test", Password: "pw", Transport: transport}
}

func newClient(t *testing.T, config Config) *Client {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answers returns a handler that accepts every login, and answers all other requests with one body.
func answers(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			_, _ = io.WriteString(w, `{"token":"token-1","user":{"id":"user-1"},"mfaRequired":false}`)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}
