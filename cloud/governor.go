// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"math"
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

// DefaultMaxOpen is how many mutations and creations are between ticket and answer at one time at most.
const DefaultMaxOpen = 20

// Rules of our own.
const (
	fewestOpen  = 4                // mutations and creations between ticket and answer, however fast the portal answers
	marginShare = 0.1              // of the burst that is left to jitter on the way, and to others
	placeGrace  = 15 * time.Second // how long a place is kept after the time its caller was told to come back
	asideTime   = 2 * time.Second  // how long a token is set aside for a place whose turn has come
	wakeSlack   = 5 * time.Second  // by which a flow that is woken is told to come later than its turn is expected
	ticketLife  = time.Minute      // of a ticket that is neither spent nor released
	minWait     = 100 * time.Millisecond
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
	// MaxOpen bounds the mutations and creations between Reserve and answer at one time, which a crash leaves in doubt;
	// 0: DefaultMaxOpen. Below it, as many are open as the rate needs while the portal takes its time to answer, and at least 4.
	MaxOpen int
	// AccountShare is the part of the account's rate and burst that this governor uses at most, more than 0 and at most 1, when
	// other processes use the account too. Limit, Burst and the portal's headers are the whole account's. 0: 1.
	AccountShare float64
	// Wake is called when the turn of a flow has come that Reserve or ReserveLook refused: its next call within two
	// seconds gets a ticket. It must not block. If it is nil, flows come back when RetryAt says.
	Wake func(flow string)
	// Rand makes the jitter; nil: a random one.
	Rand *rand.Rand
}

// Governor shares one account's rate limit between all who use it in this process: a token bucket like the portal's,
// with a queue in front. Changes go before creations, then reads and polls, which have a share of the tokens in any
// case; tenants take turns. It believes the portal rather than itself: the headers of every answer correct it, and a
// 429 closes the gate for everybody. It is safe for concurrent use.
type Governor struct {
	mu      sync.Mutex
	options GovernorOptions
	bucket  bucket
	gate    gate
	queue   queue
	jobs    jobBook
	armed   bool     // a timer runs for the next token
	woken   []func() // to be called when mu is free

	tickets  map[*ticket]struct{} // granted and unspent
	open     int                  // mutations and creations granted or in flight
	latency  time.Duration        // that they take, from ticket to answer
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
		options.MaxOpen = DefaultMaxOpen
	}
	if options.AccountShare == 0 {
		options.AccountShare = 1
	}
	if options.Rand == nil {
		options.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	g := &Governor{
		options: options,
		bucket:  newBucket(options.Limit, options.Burst, options.AccountShare, time.Now()),
		gate:    gate{rand: options.Rand},
		queue:   newQueue(),
		jobs:    newJobBook(),
		tickets: map[*ticket]struct{}{},
	}
	g.bucket.told = told
	return g
}

// Reserve grants a ticket for one call, or refuses with an error that IsRateLimited and for which RetryAt says when
// to come back. It never waits. A flow that comes back in time, or when it is woken, keeps its place in the queue, so
// refusals do not starve it; a flow has one place per class. The part of its name before a slash is its tenant. A
// granted ticket is spent by WithTicket, or given back by Release, or lost after a minute.
func (g *Governor) Reserve(flow string, class Class) (Ticket, error) {
	return g.reserve(placeKey{flow: flow, class: class}, nil, g.options.Wake)
}

// reserve is Reserve and ReserveLook; wake is nil for flows that nobody can wake.
func (g *Governor) reserve(key placeKey, running *RunningJob, wake func(flow string)) (Ticket, error) {
	g.mu.Lock()
	defer g.unlock()
	now := time.Now()
	var j *job
	if running != nil {
		j = g.jobs.follow(*running, now)
	}
	p := g.queue.place(key, j, now)
	if wake != nil {
		p.wake = func() { wake(key.flow) }
	}
	t, at := g.claim(p, now)
	if t == nil {
		return Ticket{}, waitError(at)
	}
	return Ticket{t}, nil
}

// Wait is Reserve for callers that may sleep: it returns with a ticket, or when the context ends.
func (g *Governor) Wait(ctx context.Context, flow string, class Class) (Ticket, error) {
	turn := make(chan struct{}, 1)
	wake := func() {
		select {
		case turn <- struct{}{}:
		default: // it has not seen the last one yet
		}
	}
	g.mu.Lock()
	p := g.queue.ownPlace(flow, class, wake, time.Now())
	for {
		t, _ := g.claim(p, time.Now())
		g.unlock()
		if t != nil {
			return Ticket{t}, nil
		}
		select {
		case <-turn:
			g.mu.Lock()
		case <-ctx.Done():
			g.mu.Lock()
			g.queue.leave(p)
			g.unlock()
			return Ticket{}, &Error{Message: reason(ctx.Err()), kind: kindUnavailable, cause: ctx.Err()}
		}
	}
}

// claim gives the place's ticket if its turn has come, or says when that may be.
func (g *Governor) claim(p *place, now time.Time) (*ticket, time.Time) {
	g.advance(now)
	g.queue.keepFor(p, now.Add(placeGrace))
	p.awake = now
	g.allot(now)
	if p.allotted && g.gate.open(now) {
		g.queue.leave(p)
		return g.grant(p, now), time.Time{}
	}
	at := g.expect(p, now)
	p.until = at.Add(asideTime)
	if p.wake == nil {
		p.awake = at
	} else {
		p.awake, at = time.Time{}, at.Add(wakeSlack)
	}
	g.queue.keepFor(p, at.Add(placeGrace))
	return nil, at
}

// unlock hands out tokens, and wakes those who got one. While flows sleep that are to be woken, it sees that this
// happens again at the next token.
func (g *Governor) unlock() {
	now := time.Now()
	g.allot(now)
	if !g.armed && g.queue.wakeable() {
		g.armed = true
		wait := minWait
		if free := g.free(); free < 1 {
			wait = g.bucket.time(1-free) + time.Millisecond // so that there is a token then, however it is rounded
		}
		time.AfterFunc(max(wait, g.gate.until.Sub(now)), g.tick)
	}
	woken := g.woken
	g.woken = nil
	g.mu.Unlock()
	for _, wake := range woken {
		wake()
	}
}

func (g *Governor) tick() {
	g.mu.Lock()
	defer g.unlock()
	g.armed = false
	g.advance(time.Now())
}

// advance brings everything to the present.
func (g *Governor) advance(now time.Time) {
	if g.free() < 1 && g.queue.waits() {
		g.bucket.explore(now.Sub(g.bucket.at))
	}
	g.queue.refilled(g.bucket.refill(now))
	if g.gate.open(now) {
		g.queue.sweep(now)
	}
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
		g.queue.revoke(g.queue.aside[len(g.queue.aside)-1])
	}
	for g.gate.open(now) && g.free() >= 1 {
		p := g.queue.next(now, g.mayOpen(), g.free() > g.bucket.capacity()-1)
		if p == nil {
			return
		}
		g.queue.allot(p, later(now, p.awake).Add(p.hold()))
		if p.wake != nil && p.awake.Before(now) {
			g.woken = append(g.woken, p.wake)
		}
	}
}

// free is the number of tokens that nobody has been promised.
func (g *Governor) free() float64 {
	return g.bucket.level - float64(len(g.tickets)+len(g.queue.aside))
}

// mayOpen reports whether a crash may leave one more call in doubt: as many as are on the way at the full rate, within
// bounds.
func (g *Governor) mayOpen() bool {
	needed := int(math.Ceil(g.latency.Seconds() * g.bucket.rate()))
	return g.open+g.queue.opened() < min(max(needed, fewestOpen), g.options.MaxOpen)
}

// expect estimates when the place gets its token. Others may come before it or leave; it is asked again then.
func (g *Governor) expect(p *place, now time.Time) time.Time {
	open := later(now, g.gate.until)
	if p.allotted { // but the gate is closed
		return open
	}
	if p.key.class.opens() && !g.mayOpen() {
		open = later(open, now.Add(5*minWait))
	}
	needed := 1.0
	if !p.job.likely(now.Add(pollInterval)) { // only a full bucket has a token for it
		needed = g.bucket.capacity()
	}
	wait := g.bucket.time(max(g.queue.ahead(p)+needed-g.free(), 0))
	if p.job != nil {
		wait = max(min(wait, maxParked), p.job.asked.Add(pollInterval).Sub(now))
	}
	return later(open.Add(wait), now.Add(minWait))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
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
