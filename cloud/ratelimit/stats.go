// SPDX-License-Identifier: Apache-2.0

package ratelimit

import "time"

// Stats are the present figures of a limiter, for metrics.
type Stats struct {
	Limit      int           // requests per minute, as configured or learned
	LimitKnown bool          // the options or the portal have named the limit
	Tokens     float64       // in the bucket. Negative after corrections
	Share      float64       // of the limit in use: AccountShare, and less while others use more of the account
	Waiting    map[Class]int // places in the queue, by class
	Reserved   int           // reservations that are granted and not spent
	Open       int           // mutations and creations between reservation and response
	InFlight   int           // requests on the way
	Sent       int           // requests written since the limiter was made
	Limited    int           // of these, requests that the portal refused because of the rate limit
	ClosedTo   time.Time     // when the gate opens again after a 429. In the past if it is open
}

// Stats returns the present figures.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(time.Now())
	s := Stats{
		Limit:      int(l.bucket.limit),
		LimitKnown: l.bucket.known,
		Tokens:     l.bucket.level,
		Share:      l.bucket.part * l.bucket.share,
		Waiting:    map[Class]int{},
		Reserved:   len(l.reservations),
		Open:       l.open[Mutation] + l.open[Creation],
		InFlight:   l.inFlight,
		Sent:       l.sent,
		Limited:    l.limited,
		ClosedTo:   l.gate.until,
	}
	for class, lane := range l.queue.lanes {
		s.Waiting[class] = lane.size
	}
	return s
}
