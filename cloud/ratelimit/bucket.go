// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"time"
)

// How the bucket yields to other users of the account if the portal does not send what remains.
const (
	shareCut    = 0.7                // of the rate that is left after a 429
	shareGrowth = 0.001              // of the limit, regained per second
	minShare    = 0.05               // of the limit, never given up
	exploration = 1.05               // factor per second by which the rate grows while no limit has been named
	maxExplored = 10_000.0           // requests per minute, so that a portal that refuses nothing is not flooded
	fullTime    = 60.0 * time.Second // the limit is per minute
)

// bucket estimates the portal's token bucket and stays a margin below it.
type bucket struct {
	limit float64 // requests per minute
	burst float64
	part  float64 // of limit and burst that the options give to this limiter
	share float64 // of that part that is in use: less after a 429, then slowly more. Above 1 while it explores
	known bool    // the portal has named its limit, or refused a request because of it
	level float64 // tokens, with those that reservations and allotted places will spend. May be negative
	at    time.Time
}

func newBucket(limit, burst int, part float64, now time.Time) bucket {
	b := bucket{limit: float64(limit), burst: float64(burst), part: part, share: 1, at: now}
	b.level = b.capacity()
	return b
}

func (b *bucket) margin() float64   { return math.Floor(b.burst * marginShare) }
func (b *bucket) capacity() float64 { return max((b.burst-b.margin())*b.part, 1) }

// rate is in tokens per second.
func (b *bucket) rate() float64 { return b.limit / fullTime.Seconds() * b.part * b.share }

// time returns how long it takes until so many tokens have come back.
func (b *bucket) time(tokens float64) time.Duration {
	return time.Duration(tokens / b.rate() * float64(time.Second))
}

// refill returns the tokens that have come back, whether or not the bucket can hold them.
func (b *bucket) refill(now time.Time) (tokens float64) {
	passed := now.Sub(b.at).Seconds()
	if passed <= 0 {
		return 0
	}
	b.at = now
	tokens = passed * b.rate()
	b.level = min(b.level+tokens, b.capacity())
	if b.share < 1 {
		b.share = min(b.share+passed*shareGrowth, 1)
	}
	return tokens
}

// explore raises the rate while requests wait, until the portal names its limit. A portal may send its headers only with a 429
// (specification, "Limits", rule 1), so a higher limit is found only by one refusal. On a standard account this refusal comes about
// seven seconds after the queue began. A limiter with a part of the account does not explore, because it would take the tokens
// of the other parts.
func (b *bucket) explore(passed time.Duration) {
	if !b.known && b.share >= 1 && b.part == 1 {
		b.share = min(b.share*math.Pow(exploration, min(passed.Seconds(), 1)), max(maxExplored/b.limit, 1))
	}
}

// follow corrects the level by what a response says is left for the whole account. Requests still on the way will be taken from
// that, so they are subtracted.
func (b *bucket) follow(remaining, inFlight int) {
	left := float64(remaining-inFlight) - b.margin()
	b.level = max(min(b.level, left), -b.burst)
}

// setLimit takes over a limit that the portal names.
func (b *bucket) setLimit(limit int) {
	if limit > 0 && limit <= MaxLimit {
		b.limit = float64(limit)
		b.share = min(b.share, 1)
		b.known = true
	}
}

// backOff empties the bucket until a time, and leaves a part of the rate to the other users of the account. A refusal that ends
// an exploration says nothing about other users.
func (b *bucket) backOff(until time.Time, cut, explored bool) {
	b.known = true
	b.share = min(b.share, 1)
	if cut && !explored {
		b.share = max(b.share*shareCut, minShare)
	}
	b.level = 1 // one request at first, to see whether the portal takes it
	b.at = later(b.at, until)
}
