// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// The standard tier (specification, "Limits").
const (
	standardLimit = 300 // requests per minute
	standardBurst = 50
	maxLimit      = 1_000_000 // of a learned limit
)

// Rules of our own.
const (
	defaultMaxOpen = 4                // mutations between ticket and answer at one time, so that a crash leaves few in doubt
	marginShare    = 0.1              // of the burst that is left to jitter on the way, and to others
	placeGrace     = 15 * time.Second // for which a place outlives the time at which its flow was to come back
	ticketLife     = time.Minute      // of a ticket that is neither spent nor released
	minWait        = 100 * time.Millisecond
)

// guaranteed is the part of the tokens that a class gets at least, whatever waits before it.
var guaranteed = map[Class]float64{Poll: 0.2, Read: 0.1}

// GovernorOptions describes an account. The zero value is the standard tier.
type GovernorOptions struct {
	// Limit in requests per minute; 0: 300, until the portal names another. The portal's X-RateLimit-Limit replaces
	// it. A limit that is given here is not explored beyond (bucket.explore).
	Limit int
	// Burst in requests; 0: 50.
	Burst int
	// MaxOpen mutations, between Reserve and answer, at one time; 0: 4.
	MaxOpen int
	// Rand makes the jitter; nil: a random one.
	Rand *rand.Rand
}

// Governor shares one account's rate limit between all who use it in this process: a token bucket like the portal's,
// with a queue in front. Mutations and reads go before polls, except for a fifth of the tokens; flows take turns.
// It believes the portal rather than itself: the headers of every answer correct it, and a 429 closes the gate for
// everybody. It is safe for concurrent use.
type Governor struct {
	mu      sync.Mutex
	options GovernorOptions
	bucket  bucket
	gate    gate
	queue   queue
	jobs    jobBook

	tickets  map[*ticket]struct{} // granted and unspent
	open     int                  // mutations granted or in flight
	inFlight int                  // requests of any class
	sent     int                  // requests that were written
	limited  int                  // of which the portal refused because of the rate limit
}

// NewGovernor makes a governor with a full bucket.
func NewGovernor(options GovernorOptions) *Governor {
	told := options.Limit > 0
	if !told {
		options.Limit = standardLimit
	}
	if options.Burst <= 0 {
		options.Burst = standardBurst
	}
	if options.MaxOpen <= 0 {
		options.MaxOpen = defaultMaxOpen
	}
	if options.Rand == nil {
		options.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	g := &Governor{
		options: options,
		bucket:  newBucket(options.Limit, options.Burst, time.Now()),
		gate:    gate{rand: options.Rand},
		queue:   newQueue(),
		jobs:    newJobBook(),
		tickets: map[*ticket]struct{}{},
	}
	g.bucket.told = told
	return g
}

// Reserve grants a ticket for one call, or refuses with an error that IsRateLimited and for which RetryAt says when
// to come back. It never waits. A flow that comes back in time keeps its place in the queue, so refusals do not
// starve it; a flow has one place per class. A granted ticket is spent by WithTicket, or given back by Release, or
// lost after a minute.
func (g *Governor) Reserve(flow string, class Class) (Ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	p := g.queue.place(placeKey{flow: flow, class: class}, now)
	t, at := g.claim(p, now)
	if t == nil {
		return Ticket{}, waitError(at)
	}
	return Ticket{t}, nil
}

// Wait is Reserve for callers that may sleep: it returns with a ticket, or when the context ends.
func (g *Governor) Wait(ctx context.Context, flow string, class Class) (Ticket, error) {
	g.mu.Lock()
	p := g.queue.ownPlace(flow, class, time.Now())
	g.mu.Unlock()
	for {
		g.mu.Lock()
		t, at := g.claim(p, time.Now())
		g.mu.Unlock()
		if t != nil {
			return Ticket{t}, nil
		}
		// A second at most, since a gate may open and a queue empty earlier than foreseen.
		if err := sleep(ctx, earlier(at, time.Now().Add(time.Second))); err != nil {
			g.mu.Lock()
			g.queue.leave(p)
			g.mu.Unlock()
			return Ticket{}, err
		}
	}
}

// claim gives the place's ticket if its turn has come, or says when that may be.
func (g *Governor) claim(p *place, now time.Time) (*ticket, time.Time) {
	g.advance(now)
	g.queue.keep(p, now.Add(placeGrace))
	g.allot(now)
	if p.allotted && g.gate.open(now) && (p.key.class != Mutation || g.open < g.options.MaxOpen) {
		g.queue.leave(p)
		return g.grant(p, now), time.Time{}
	}
	at := g.expect(p, now)
	g.queue.keep(p, at.Add(placeGrace))
	return nil, at
}

// advance brings everything to the present.
func (g *Governor) advance(now time.Time) {
	if g.free() < 1 && g.queue.waits() {
		g.bucket.explore(now.Sub(g.bucket.at))
	}
	g.bucket.refill(now)
	g.queue.sweep(now)
	for t := range g.tickets {
		if now.After(t.expires) {
			g.giveBack(t, ticketExpired)
		}
	}
}

// allot hands free tokens to the places whose turn it is, and takes them back when the portal tells that there are
// fewer than we thought.
func (g *Governor) allot(now time.Time) {
	for g.free() < 0 && len(g.queue.aside) > 0 {
		g.queue.revoke()
	}
	for g.gate.open(now) && g.free() >= 1 {
		p := g.queue.next(g.options.MaxOpen)
		if p == nil {
			return
		}
		g.queue.allot(p)
	}
}

// free is the number of tokens that nobody has been promised.
func (g *Governor) free() float64 {
	return g.bucket.level - float64(len(g.tickets)+len(g.queue.aside))
}

// expect estimates when the place gets its token. Others may come before it or leave; it is asked again then.
func (g *Governor) expect(p *place, now time.Time) time.Time {
	open := later(now, g.gate.until)
	if p.allotted { // but the gate is closed, or no mutation may be opened
		return later(open, now.Add(5*minWait))
	}
	missing := g.queue.ahead(p) + 1 - g.free()
	wait := time.Duration(max(missing, 0) / g.bucket.rate() * float64(time.Second))
	return later(open.Add(wait), now.Add(minWait))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sleep waits until a time, or returns the context's end as an error.
func sleep(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return &Error{Message: reason(ctx.Err()), kind: kindUnavailable, cause: ctx.Err()}
	}
}
