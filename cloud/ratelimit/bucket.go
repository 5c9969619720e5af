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
	fullTime    = 60.0 * time.Second // the limit is per minute
)

// bucket estimates the portal's token bucket and stays a margin below it.
type bucket struct {
	limit float64 // requests per minute
	known bool    // the options or the portal have named the limit
	burst float64 // the options', until the portal says what remains. Then the most that it has said, as far as burstOf believes it
	seen  bool    // the portal has said what remains
	part  float64 // of limit and burst that the options give to this limiter
	share float64 // of that part that is in use: less after a 429, then slowly more
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

// learn corrects the bucket by what a response says about the whole account. What remains after a 429 says nothing about the burst.
func (b *bucket) learn(response *Response, inFlight int) {
	if limit, ok := headerNumber(response.Header, "X-RateLimit-Limit"); ok {
		b.setLimit(limit)
	}
	if remaining, ok := headerNumber(response.Header, "X-RateLimit-Remaining"); ok && !response.Limited {
		b.follow(remaining, inFlight)
	}
}

// follow corrects the burst and the level by what a response says is left for the whole account. No header names the burst. A portal
// may count what is left of it, or what is left of the minute's requests, which is more: after a quiet minute 299, where 50 may be made
// at once. One answer does not show which of the two it is, so a larger burst than the limit's is not believed. Requests still on the
// way will be taken from what is left, so they are subtracted.
func (b *bucket) follow(remaining, inFlight int) {
	if most := min(float64(remaining), burstOf(b.limit)); !b.seen || most > b.burst {
		b.burst, b.seen = most, true
	}
	left := float64(remaining-inFlight) - b.margin()
	b.level = max(min(b.level, left, b.capacity()), -standardBurst) // at most so many are believed to be on the way
}

// setLimit takes over a limit that the portal names. A small account then has no larger burst than its limit's.
func (b *bucket) setLimit(limit int) {
	if limit <= 0 || limit > MaxLimit {
		return
	}
	b.limit, b.known = float64(limit), true
	b.burst = min(b.burst, burstOf(b.limit))
}

// burstOf returns the burst of an account with a limit, in the proportion of the standard tier.
func burstOf(limit float64) float64 { return max(1, math.Floor(limit*standardBurst/standardLimit)) }

// backOff empties the bucket until a time, and leaves a part of the rate to the other users of the account.
func (b *bucket) backOff(until time.Time, cut bool) {
	if cut {
		b.share = max(b.share*shareCut, minShare)
	}
	b.level = 1 // one request at first, to see whether the portal takes it
	b.at = later(b.at, until)
}
