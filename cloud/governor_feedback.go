// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Backoff after a 429 (specification, "Limits", rule 2).
const (
	gateBackoff    = time.Second
	maxGateBackoff = time.Minute
	maxGateClosed  = time.Hour // whatever a header says
	gateJitter     = 0.2       // of the time closed, added at random
)

// gate is closed for everybody after a 429.
type gate struct {
	rand    *rand.Rand
	until   time.Time
	closed  time.Time // when it was last closed
	strikes int       // 429s in a row, each after the gate had opened again
}

func (g *gate) open(now time.Time) bool { return !now.Before(g.until) }

// shut closes the gate for at least the time that the portal asks for. It reports whether this 429 is news: the ones
// that answer requests sent before the gate closed tell nothing more.
func (g *gate) shut(sentAt, now time.Time, wait time.Duration) bool {
	news := g.closed.IsZero() || sentAt.After(g.closed)
	if news {
		g.strikes++
	}
	if backoff := gateBackoff << min(g.strikes-1, 10); g.strikes > 1 || wait <= 0 {
		wait = max(wait, min(backoff, maxGateBackoff))
	}
	wait = min(wait, maxGateClosed)
	if news {
		wait += time.Duration(g.rand.Float64() * gateJitter * float64(wait))
	}
	g.closed = now
	g.until = later(g.until, now.Add(wait))
	return news
}

// learn takes from an answer what it says about the account.
func (g *Governor) learn(t *ticket, a *answer) {
	explored := g.bucket.share > 1
	if limit, ok := headerNumber(a.header, "X-RateLimit-Limit"); ok {
		g.bucket.tier(limit)
	}
	if isRateLimited(a) {
		g.limited++
		wait, _ := retryAfter(a.header, a.at, true)
		news := g.gate.shut(t.sentAt, a.at, wait)
		g.bucket.yield(g.gate.until, news, explored)
		return
	}
	if t.sentAt.After(g.gate.closed) {
		g.gate.strikes = 0
	}
	if remaining, ok := headerNumber(a.header, "X-RateLimit-Remaining"); ok {
		g.bucket.follow(remaining, g.inFlight)
	}
}

// isRateLimited: by status, or by the code whatever the status of the refusal.
func isRateLimited(a *answer) bool {
	if a.ok() {
		return false
	}
	e, _ := parseError(a.body, nil)
	return classify(e.Code, a.status) == kindRateLimited || a.status == http.StatusTooManyRequests
}
