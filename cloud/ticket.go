// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"time"
)

// Ticket is the right to send one request, granted by a Governor. The zero Ticket is none.
type Ticket struct{ t *ticket }

type ticketState int

const (
	ticketGranted ticketState = iota
	ticketSpent
	ticketReturned
	ticketExpired
)

type ticket struct {
	governor *Governor
	class    Class
	granted  time.Time
	state    ticketState
	expires  time.Time
	waited   time.Duration
	sentAt   time.Time
}

// Release gives an unspent ticket back. On one that is spent, returned or expired it does nothing, so it can be
// deferred.
func (t Ticket) Release() {
	if t.t == nil {
		return
	}
	g := t.t.governor
	g.mu.Lock()
	defer g.unlock()
	g.giveBack(t.t, ticketReturned)
}

type ticketKey struct{}

// WithTicket makes the next request under the context spend the ticket. Later requests, and a login that has to come
// first, take tickets of their own.
func WithTicket(ctx context.Context, t Ticket) context.Context {
	return context.WithValue(ctx, ticketKey{}, t)
}

func withoutTicket(ctx context.Context) context.Context { return WithTicket(ctx, Ticket{}) }

func ticketOf(ctx context.Context) *ticket {
	t, _ := ctx.Value(ticketKey{}).(Ticket)
	return t.t
}

// grant turns a place's token into a ticket.
func (g *Governor) grant(p *place, now time.Time) *ticket {
	t := &ticket{governor: g, class: p.key.class, granted: now, expires: now.Add(ticketLife), waited: now.Sub(p.since)}
	g.tickets[t] = struct{}{}
	if t.class.opens() {
		g.open++
	}
	if p.job != nil {
		p.job.asked = now
	}
	return t
}

// giveBack ends a ticket that was not spent.
func (g *Governor) giveBack(t *ticket, state ticketState) {
	if t.state != ticketGranted {
		return
	}
	t.state = state
	delete(g.tickets, t)
	g.closeMutation(t)
}

func (g *Governor) closeMutation(t *ticket) {
	if t.class.opens() {
		g.open--
	}
}

// spend uses a ticket for a request that is now sent. It reports false for a ticket that is not this governor's, or
// no longer good; the gate may also have closed since, and then the ticket is returned and the time given.
func (g *Governor) spend(t *ticket) (bool, error) {
	g.mu.Lock()
	defer g.unlock()
	now := time.Now()
	g.advance(now)
	if t.governor != g || t.state != ticketGranted {
		return false, nil
	}
	if !g.gate.open(now) {
		g.giveBack(t, ticketReturned)
		return false, waitError(g.gate.until)
	}
	delete(g.tickets, t)
	t.state = ticketSpent
	t.sentAt = now
	g.bucket.level--
	g.inFlight++
	return true, nil
}

// settle ends a spent ticket. What was not written cost nothing; an answer says how the account stands.
func (g *Governor) settle(t *ticket, sent bool, a *answer) {
	g.mu.Lock()
	defer g.unlock()
	now := time.Now()
	g.advance(now)
	g.inFlight--
	g.closeMutation(t)
	if sent && t.class.opens() { // the last ones count more
		g.latency += (now.Sub(t.granted) - g.latency) / 4
	}
	if sent {
		g.sent++
	} else {
		g.bucket.level++
	}
	if a != nil {
		g.learn(t, a)
	}
}
