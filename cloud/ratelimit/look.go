// SPDX-License-Identifier: Apache-2.0

package ratelimit

import "time"

// maxLookWait bounds the time after which a refused look is asked for again. By then the look may be worth a token.
const maxLookWait = 30 * time.Second

// Look is a read that can wait, such as a look at a job. Its owner knows how soon it is useful. The limiter calls the methods
// while it is locked, so they must not call the limiter.
type Look interface {
	// Schedule returns the present schedule. It may change until the look is granted.
	Schedule() Schedule
	// Granted notes that the look has a reservation.
	Granted(now time.Time)
}

// Schedule says when a Look is useful.
type Schedule struct {
	Earliest time.Time // before then it gets no token
	Likely   time.Time // from then on it gets a free token. Before, it only gets one that a full bucket cannot hold
	Overdue  time.Time // from then on it gets tokens of the polls' guaranteed share, too
	Due      time.Time // the look that has been due longest goes first
}

// lookable reports whether a token may be spent on the place. A place without a Look is always ready.
func (p *place) lookable(now time.Time) bool {
	return p.look == nil || !now.Before(p.look.Schedule().Earliest)
}

// likely reports whether the look is worth a free token.
func (p *place) likely(now time.Time) bool {
	if p.look == nil {
		return true
	}
	s := p.look.Schedule()
	return !now.Before(s.Earliest) && !now.Before(s.Likely)
}

// overdue reports whether the look is worth a token of the polls' guaranteed share.
func (p *place) overdue(now time.Time) bool {
	return p.look == nil || !now.Before(p.look.Schedule().Overdue)
}
