// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"cmp"
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
)

// MaxLimit is the highest limit that is believed, in requests per minute.
const MaxLimit = 1_000_000

// DefaultMaxOpen is how many mutations may be between reservation and response at one time, and how many mutations and creations together before
// another creation is sent.
const DefaultMaxOpen = 20

// Rules that the specification does not make.
const (
	minOpen         = 4                // mutations and creations may be open, even if the portal answers fast
	marginShare     = 0.1              // of the burst is left to jitter on the way and to other users
	placeGrace      = 15 * time.Second // how long a place is kept after the time at which its caller should come back
	asideTime       = 2 * time.Second  // how long a token is set aside for a place whose turn has come
	wakeSlack       = 5 * time.Second  // how much later than its expected turn a flow that gets woken should come back
	reservationLife = time.Minute      // of a reservation that is neither spent nor canceled
	minWait         = 100 * time.Millisecond
	pollAhead       = 5 * time.Second // a poll that becomes likely within this time waits for a free token only
)

// guaranteed is the share of the tokens that a class gets at least, even if calls of higher classes wait.
var guaranteed = map[Class]float64{Poll: 0.2, Read: 0.1}

// Options describe an account. The zero value is the standard tier.
type Options struct {
	// Limit in requests per minute. 0 means 300. X-RateLimit-Limit replaces it.
	Limit int
	// Burst in requests. 0 means 50. The largest X-RateLimit-Remaining replaces it, up to a sixth of the limit.
	Burst int
	// MaxOpen bounds the mutations and creations between Reserve and response at one time. A crash leaves at most so many creations in
	// doubt. 0 means DefaultMaxOpen. Below it, as many may be open as the rate needs at the portal's response time, and at least 4.
	// Open creations do not count for a mutation, because a portal may take minutes to answer them.
	MaxOpen int
	// AccountShare is the largest part of the account's rate and burst that this limiter uses, if other processes use the
	// account too: more than 0 and at most 1. Limit, Burst and the portal's headers are the whole account's. 0 means 1.
	AccountShare float64
	// Wake is called when it is the turn of a flow that Reserve or ReservePoll refused. If the flow reserves within two seconds,
	// it gets a reservation. Wake must not block. If it is nil, flows come back at WaitError.RetryAt.
	Wake func(flow string)
	// Rand makes the jitter. Nil means a random seed.
	Rand *rand.Rand
}

// Limiter shares one account's rate limit between all its users in this process. It has a token bucket like the portal's and a
// queue in front of it. Changes go before creations, then reads and polls, which are guaranteed a share of the tokens. Tenants
// take turns. The headers of every response correct the limiter, and a 429 stops all callers. It is safe for concurrent use.
type Limiter struct {
	mu      sync.Mutex
	options Options
	bucket  bucket
	gate    gate
	queue   queue
	jobs    jobs
	armed   bool     // a timer runs for the next token
	woken   []func() // to be called when mu is free

	reservations map[*Reservation]struct{} // granted, neither spent nor ended
	open         map[Class]int             // mutations and creations granted or in flight
	latency      map[Class]time.Duration   // that they take, from reservation to response
	inFlight     int                       // requests of any class
	sent         int                       // requests that were written
	limited      int                       // of these, requests that the portal refused because of the rate limit
}

// NewLimiter returns a limiter with a full bucket.
func NewLimiter(options Options) *Limiter {
	known := options.Limit > 0
	options.Limit = cmp.Or(max(options.Limit, 0), standardLimit)
	options.Burst = cmp.Or(max(options.Burst, 0), standardBurst)
	options.MaxOpen = cmp.Or(max(options.MaxOpen, 0), DefaultMaxOpen)
	options.AccountShare = cmp.Or(options.AccountShare, 1)
	if options.Rand == nil {
		options.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	l := &Limiter{
		options:      options,
		bucket:       newBucket(options.Limit, options.Burst, options.AccountShare, time.Now()),
		gate:         gate{rand: options.Rand},
		queue:        newQueue(),
		jobs:         newJobs(),
		reservations: map[*Reservation]struct{}{},
		open:         map[Class]int{},
		latency:      map[Class]time.Duration{},
	}
	l.bucket.known = known
	return l
}

// Reserve grants a reservation for one call, or returns a *WaitError that says when to come back. It never waits. A flow that
// comes back in time, or when it is woken, keeps its place in the queue. A flow has one place per class. The part of its name
// before a slash is its tenant.
func (l *Limiter) Reserve(flow string, class Class) (*Reservation, error) {
	return l.reserve(placeKey{flow: flow, class: class}, nil, l.options.Wake)
}

// ReserveWithoutWake is Reserve for a flow that Options.Wake does not know. It comes back at WaitError.RetryAt.
func (l *Limiter) ReserveWithoutWake(flow string, class Class) (*Reservation, error) {
	return l.reserve(placeKey{flow: flow, class: class}, nil, nil)
}

// ReservePoll is Reserve for a poll of a job, which waits until it is useful. It refuses within 5 s of the job's start and of the last
// poll.
func (l *Limiter) ReservePoll(flow string, running RunningJob) (*Reservation, error) {
	return l.reserve(placeKey{flow: flow, class: Poll}, &running, l.options.Wake)
}

// ObserveJob learns from a poll of a job whether it has ended.
func (l *Limiter) ObserveJob(jobID string, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs.observe(jobID, done, time.Now())
}

func (l *Limiter) reserve(key placeKey, running *RunningJob, wake func(flow string)) (*Reservation, error) {
	l.mu.Lock()
	defer l.unlock()
	now := time.Now()
	var polled *job
	if running != nil {
		polled = l.jobs.follow(*running, now)
	}
	p := l.queue.place(key, polled, now)
	if wake != nil {
		p.wake = func() { wake(key.flow) }
	}
	return l.tryReserve(p, now)
}

// Wait is Reserve for callers that may block. It returns with a reservation, or with the error of the context when that ends.
func (l *Limiter) Wait(ctx context.Context, flow string, class Class) (*Reservation, error) {
	turn := make(chan struct{}, 1)
	wake := func() {
		select {
		case turn <- struct{}{}:
		default: // it has not seen the last one yet
		}
	}
	l.mu.Lock()
	// A place of its own, which no other caller of the same flow shares, and which is kept until it is left.
	p := l.queue.place(placeKey{flow: flow, class: class, serial: l.queue.number + 1}, nil, time.Now())
	p.wake = wake
	for {
		r, err := l.tryReserve(p, time.Now())
		l.unlock()
		if err == nil {
			return r, nil
		}
		select {
		case <-turn:
			l.mu.Lock()
		case <-ctx.Done():
			l.mu.Lock()
			l.queue.leave(p)
			l.unlock()
			return nil, ctx.Err()
		}
	}
}

// Tokens returns the number of tokens that are neither reserved nor set aside. It is negative after corrections.
func (l *Limiter) Tokens() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(time.Now())
	return l.free()
}

// Charge takes tokens for requests that the account has paid for without reservations, and learns from a response to one of them.
// It is nil if there is none.
func (l *Limiter) Charge(requests int, response *Response) {
	l.mu.Lock()
	defer l.unlock()
	l.advance(time.Now())
	if response != nil {
		l.bucket.learn(response, l.inFlight)
	}
	l.bucket.level -= float64(requests)
}

// tryReserve grants a reservation if it is the place's turn, or returns a *WaitError with the time at which its turn is expected.
func (l *Limiter) tryReserve(p *place, now time.Time) (*Reservation, error) {
	l.advance(now)
	l.queue.keepFor(p, now.Add(placeGrace))
	p.awake = now
	l.allot(now)
	if p.allotted && l.gate.open(now) {
		l.queue.leave(p)
		return l.grant(p, now), nil
	}
	at := l.expectedTurn(p, now)
	p.until = at.Add(asideTime)
	if p.wake == nil {
		p.awake = at
	} else {
		p.awake, at = time.Time{}, at.Add(wakeSlack)
	}
	l.queue.keepFor(p, at.Add(placeGrace))
	return nil, &WaitError{RetryAt: at}
}

// unlock hands out tokens and wakes the flows that got one. While flows wait to be woken, it sets a timer for the next token.
func (l *Limiter) unlock() {
	now := time.Now()
	l.allot(now)
	if !l.armed && l.queue.wakeable() {
		l.armed = true
		wait := minWait
		if free := l.free(); free < 1 {
			wait = l.bucket.time(1-free) + time.Millisecond // so that rounding does not wake it before the token
		}
		time.AfterFunc(max(wait, l.gate.until.Sub(now)), l.tick)
	}
	woken := l.woken
	l.woken = nil
	l.mu.Unlock()
	for _, wake := range woken {
		wake()
	}
}

func (l *Limiter) tick() {
	l.mu.Lock()
	defer l.unlock()
	l.armed = false
	l.advance(time.Now())
}

// advance refills the bucket, and gives up places and reservations whose time is over.
func (l *Limiter) advance(now time.Time) {
	l.queue.addCredit(l.bucket.refill(now))
	if l.gate.open(now) {
		l.queue.sweep(now)
	}
	for r := range l.reservations {
		if now.Sub(r.granted) > reservationLife {
			l.end(r)
		}
	}
}

// allot sets free tokens aside for the places whose turn it is. It takes them back if the portal says that fewer are left than
// the limiter believed.
func (l *Limiter) allot(now time.Time) {
	for l.free() < 0 && len(l.queue.aside) > 0 {
		l.queue.revoke(l.queue.aside[len(l.queue.aside)-1])
	}
	for l.gate.open(now) && l.free() >= 1 {
		p := l.queue.next(now, l.mayOpen, l.free() > l.bucket.capacity()-1)
		if p == nil {
			return
		}
		l.queue.allot(p, later(now, p.awake).Add(p.hold()))
		if p.wake != nil && p.awake.Before(now) {
			l.woken = append(l.woken, p.wake)
		}
	}
}

// free returns the number of tokens that are not promised to a reservation or a place.
func (l *Limiter) free() float64 {
	return l.bucket.level - float64(len(l.reservations)+len(l.queue.aside))
}

// mayOpen reports whether one more call of the class may be open: as many as are on the way at the full rate, within the bounds. A mutation
// does not wait for the answers to creations. A creation waits for both.
func (l *Limiter) mayOpen(class Class) bool {
	open := l.open[Mutation] + l.queue.opened(Mutation)
	if class == Creation {
		open += l.open[Creation] + l.queue.opened(Creation)
	}
	needed := int(math.Ceil(l.latency[class].Seconds() * l.bucket.rate()))
	return open < min(max(needed, minOpen), l.options.MaxOpen)
}

// expectedTurn estimates when the place gets its token. Other places may come before it or leave, so the estimate is repeated
// each time the place is claimed.
func (l *Limiter) expectedTurn(p *place, now time.Time) time.Time {
	open := later(now, l.gate.until)
	if p.allotted { // but the gate is closed
		return open
	}
	if p.key.class.isMutating() && !l.mayOpen(p.key.class) {
		open = later(open, now.Add(5*minWait))
	}
	needed := 1.0
	if !p.job.isLikely(now.Add(pollAhead)) { // only a full bucket has a token for it
		needed = l.bucket.capacity()
	}
	wait := l.bucket.time(max(l.queue.ahead(p)+needed-l.free(), 0))
	if p.job != nil {
		wait = max(min(wait, maxPollWait), p.job.asked.Add(pollInterval).Sub(now))
	}
	return later(open.Add(wait), now.Add(minWait))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
