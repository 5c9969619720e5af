// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// limiter is one account's budget: a bucket of burst requests into which one flows back every interval. It is kept as
// the time at which the bucket will be full, which is exact where a fraction of a request would not be.
type limiter struct {
	interval time.Duration
	burst    int
	fullAt   time.Time
	seenAt   time.Time // until when the use by others is accounted for
	window   int64     // the last window with a request, by its number since 1970
	used     int       // requests that were admitted in it
}

// limits holds the rate-limit headers of one answer.
type limits struct {
	perMinute int
	remaining int
	resetIn   time.Duration // until the bucket is full
	retryIn   time.Duration // until a request is admitted. 0 if this one was
}

// spend takes a request from the budget of the call's account. Callers that belong to no account share a budget.
// Refused requests cost nothing.
func (p *Portal) spend(c *call) (limits, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.limiterOf(c.account)
	now, others := time.Now(), p.othersPerMinute(c.account)
	l.useByOthers(now, others)
	left := l.take(now)
	left.perMinute = p.opts.RateLimit.PerMinute
	if p.opts.Shapes.WindowRemaining {
		left.remaining = l.leftOfWindow(c.now().Unix(), p.opts.Shapes.window(), left, others)
	}
	if left.retryIn > 0 {
		return left, refuse(CodeRateLimited, "too many requests: the account may make %d per minute", left.perMinute)
	}
	return left, nil
}

// limiterOf returns an account's budget. Callers hold mu.
func (p *Portal) limiterOf(account string) *limiter {
	l := p.limits[account]
	if l == nil {
		l = &limiter{interval: time.Minute / time.Duration(p.opts.RateLimit.PerMinute), burst: p.opts.RateLimit.Burst}
		p.limits[account] = l
	}
	return l
}

// take admits a request, or returns when to come back.
func (l *limiter) take(now time.Time) limits {
	if l.fullAt.Before(now) {
		l.fullAt = now
	}
	room := time.Duration(l.burst) * l.interval
	after := l.fullAt.Add(l.interval)
	if over := after.Sub(now) - room; over > 0 {
		return limits{resetIn: l.fullAt.Sub(now), retryIn: over}
	}
	l.fullAt = after
	return limits{remaining: int((room - after.Sub(now)) / l.interval), resetIn: after.Sub(now)}
}

// leftOfWindow counts the request that left describes, and returns what is left of the requests of its window.
func (l *limiter) leftOfWindow(now, seconds int64, left limits, othersPerMinute int) int {
	if number := now / seconds; number != l.window {
		l.window, l.used = number, 0
	}
	if left.retryIn == 0 {
		l.used++
	}
	all, others := int64(left.perMinute)*seconds/60, int64(othersPerMinute)*(now%seconds)/60
	return max(int(all-others)-l.used, 0)
}

// Budget is how many requests an account can make at this moment.
type Budget struct {
	Account   string `json:"account"` // empty: callers that belong to no account
	Remaining int    `json:"remaining"`
	Burst     int    `json:"burst"`     // Remaining when the account has been idle for long
	PerMinute int    `json:"perMinute"` // requests that come back each minute
}

// Budgets returns the budgets of the accounts that have made a request, sorted by account. Looking costs no request.
func (p *Portal) Budgets() []Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	out := make([]Budget, 0, len(p.limits))
	for _, account := range slices.Sorted(maps.Keys(p.limits)) {
		l := *p.limits[account]
		l.useByOthers(now, p.othersPerMinute(account))
		used := max(l.fullAt.Sub(now), 0)
		room := time.Duration(l.burst) * l.interval
		out = append(out, Budget{
			Account: account, Remaining: int(max(room-used, 0) / l.interval), Burst: l.burst, PerMinute: p.opts.RateLimit.PerMinute,
		})
	}
	return out
}

// useByOthers takes what a neighbour on the account used since the last look, as far as the budget allowed it.
func (l *limiter) useByOthers(now time.Time, perMinute int) {
	since := now.Sub(l.seenAt)
	first := l.seenAt.IsZero()
	l.seenAt = now
	if first || perMinute <= 0 {
		return
	}
	if full := l.fullAt; full.Before(now.Add(-since)) {
		l.fullAt = now.Add(-since)
	}
	used := time.Duration(float64(since) * float64(perMinute) * l.interval.Minutes())
	l.fullAt = l.fullAt.Add(used)
	if empty := now.Add(time.Duration(l.burst) * l.interval); l.fullAt.After(empty) {
		l.fullAt = empty
	}
}

// limitHeaders are the documented headers (specification, Limits). X-RateLimit-Reset is when all of X-RateLimit-Remaining is
// available again. Retry-After is when the next request is.
func (c *call) limitHeaders(a answer, l limits) http.Header {
	h := http.Header{}
	shapes := &c.portal.opts.Shapes
	limited := a.status == http.StatusTooManyRequests
	if limited || !shapes.QuietLimits {
		h.Set("X-RateLimit-Limit", strconv.Itoa(l.perMinute))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(l.remaining))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(shapes.reset(c.now(), l.resetIn), 10))
	}
	retryIn := max(l.retryIn, a.retryIn)
	if !limited && retryIn == 0 {
		return h
	}
	if shapes.RetryAfterDate {
		h.Set("Retry-After", time.Unix(ceilSeconds(c.now().Add(retryIn)), 0).UTC().Format(http.TimeFormat))
		return h
	}
	seconds := max((retryIn+time.Second-1)/time.Second, 1)
	h.Set("Retry-After", strconv.Itoa(int(seconds)))
	return h
}

// reset returns the value of X-RateLimit-Reset.
func (s *Shapes) reset(now time.Time, fullIn time.Duration) int64 {
	if window := s.window(); window > 0 {
		return (now.Unix()/window + 1) * window
	}
	return ceilSeconds(now.Add(fullIn))
}

// window is the length of the fixed window that the headers are about, in seconds. 0 is none.
func (s *Shapes) window() int64 {
	if s.WindowRemaining && s.ResetSeconds == 0 {
		return 60
	}
	return int64(s.ResetSeconds)
}

// ceilSeconds is a time as a Unix timestamp that is not before it.
func ceilSeconds(t time.Time) int64 {
	return t.Add(time.Second - 1).Unix()
}
