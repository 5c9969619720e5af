// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math/rand/v2"
	"time"
)

// Backoff after a 429 (specification, "Limits", rule 2).
const (
	gateBackoff    = time.Second
	maxGateBackoff = time.Minute
	maxGateClosed  = time.Hour // even if a header says more
	gateJitter     = 0.2       // of the time closed, added at random
)

// gate is closed for all callers after a 429.
type gate struct {
	rand     *rand.Rand
	until    time.Time
	closed   time.Time // when it was last closed
	refusals int       // 429s in a row, each after the gate had opened again
}

func (g *gate) open(now time.Time) bool { return !now.Before(g.until) }

// close closes the gate for at least the time that the portal asks for. It reports whether this 429 is a new refusal. A 429 for a
// request that was sent before the gate closed is none.
func (g *gate) close(sentAt, now time.Time, wait time.Duration) bool {
	strike := g.closed.IsZero() || sentAt.After(g.closed)
	if strike {
		g.refusals++
	}
	if backoff := gateBackoff << min(g.refusals-1, 10); g.refusals > 1 || wait <= 0 {
		wait = max(wait, min(backoff, maxGateBackoff))
	}
	wait = min(wait, maxGateClosed)
	if strike {
		wait += time.Duration(g.rand.Float64() * gateJitter * float64(wait))
	}
	g.closed = now
	g.until = later(g.until, now.Add(wait))
	return strike
}

// learn corrects the limiter by what a response says about the account.
func (l *Limiter) learn(r *Reservation, response *Response) {
	l.bucket.learn(response, l.inFlight)
	if response.Limited {
		l.limited++
		wait, _ := RetryAfter(response.Header, response.At, true)
		strike := l.gate.close(r.sentAt, response.At, wait)
		l.bucket.backOff(l.gate.until, strike)
		return
	}
	if r.sentAt.After(l.gate.closed) {
		l.gate.refusals = 0
	}
}
