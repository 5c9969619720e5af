// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"net/http"
	"time"
)

// WaitError refuses a reservation for now. Nothing was sent.
type WaitError struct {
	RetryAt time.Time // when to ask again
}

// Error returns the same text for every wait.
func (e *WaitError) Error() string { return "waiting for the rate limit of the portal account" }

// Reservation is the right to send one request. A Limiter grants it. Nil is no reservation.
type Reservation struct {
	limiter *Limiter
	class   Class
	granted time.Time
	over    bool // it is spent, canceled or expired
	waited  time.Duration
	sentAt  time.Time
}

// Response is what a Limiter learns from the portal's response to a request.
type Response struct {
	Header  http.Header
	At      time.Time // when the response was complete
	Limited bool      // the portal refused the request because of the rate limit
}

// Waited returns how long the reservation waited for the rate limit before it was granted. A poll does not wait for the rate limit
// while its job must not be polled yet.
func (r *Reservation) Waited() time.Duration { return r.waited }

// Cancel returns the token of a reservation that was not spent. It does nothing if the reservation is spent, canceled, expired
// or nil, so it can be deferred.
func (r *Reservation) Cancel() {
	if r == nil {
		return
	}
	l := r.limiter
	l.mu.Lock()
	defer l.unlock()
	l.end(r)
}

// Spend uses a reservation for a request that is sent right after. It returns false if the reservation is of another limiter, or
// has ended. If the gate has closed since the grant, the reservation is canceled and the error is a *WaitError.
func (l *Limiter) Spend(r *Reservation) (bool, error) {
	l.mu.Lock()
	defer l.unlock()
	now := time.Now()
	l.advance(now)
	if r == nil || r.limiter != l || r.over {
		return false, nil
	}
	if !l.gate.open(now) {
		l.end(r)
		return false, &WaitError{RetryAt: l.gate.until}
	}
	delete(l.reservations, r)
	r.over = true
	r.sentAt = now
	l.bucket.level--
	l.inFlight++
	return true, nil
}

// Settle ends a spent reservation when its request is over. A request that was not sent gets its token back. The response
// corrects the limiter. It is nil if none came.
func (r *Reservation) Settle(sent bool, response *Response) {
	l := r.limiter
	l.mu.Lock()
	defer l.unlock()
	now := time.Now()
	l.advance(now)
	l.inFlight--
	l.closeMutation(r)
	if sent && r.class.isMutating() { // a moving average
		l.latency[r.class] += (now.Sub(r.granted) - l.latency[r.class]) / 4
	}
	if sent {
		l.sent++
	} else {
		l.bucket.level++
	}
	if response != nil {
		l.learn(r, response)
	}
}

// grant makes a reservation of the token that is set aside for a place.
func (l *Limiter) grant(p *place, now time.Time) *Reservation {
	r := &Reservation{limiter: l, class: p.key.class, granted: now, waited: p.waited(now)}
	l.reservations[r] = struct{}{}
	if r.class.isMutating() {
		l.open[r.class]++
	}
	if p.job != nil {
		p.job.asked = now
	}
	return r
}

// end ends a reservation that was not spent.
func (l *Limiter) end(r *Reservation) {
	if r.over {
		return
	}
	r.over = true
	delete(l.reservations, r)
	l.closeMutation(r)
}

func (l *Limiter) closeMutation(r *Reservation) {
	if r.class.isMutating() {
		l.open[r.class]--
	}
}
