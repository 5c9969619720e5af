// SPDX-License-Identifier: Apache-2.0

package ratelimit

import "time"

// maxPollWait bounds the time after which a refused poll is asked for again. By then the poll may be worth a token.
const maxPollWait = 30 * time.Second

// PolledJob is a job whose poll can wait. Its owner knows how soon the poll is useful. The limiter calls the methods
// while it is locked, so they must not call the limiter.
type PolledJob interface {
	// Schedule returns the present schedule. It may change until the poll is granted.
	Schedule() Schedule
	// Granted notes that the poll has a reservation.
	Granted(now time.Time)
}

// Schedule says when a poll of the job is useful.
type Schedule struct {
	Earliest time.Time // before then it gets no token
	Likely   time.Time // from then on it gets a free token. Before, it only gets one that a full bucket cannot hold
	Overdue  time.Time // from then on it gets tokens of the polls' guaranteed share, too
	Due      time.Time // the poll that has been due longest goes first
}

// isPollable reports whether a token may be spent on the place. A place without a PolledJob is always ready.
func (p *place) isPollable(now time.Time) bool {
	return p.job == nil || !now.Before(p.job.Schedule().Earliest)
}

// isLikely reports whether the poll is worth a free token.
func (p *place) isLikely(now time.Time) bool {
	if p.job == nil {
		return true
	}
	s := p.job.Schedule()
	return !now.Before(s.Earliest) && !now.Before(s.Likely)
}

// isOverdue reports whether the poll is worth a token of the polls' guaranteed share.
func (p *place) isOverdue(now time.Time) bool {
	return p.job == nil || !now.Before(p.job.Schedule().Overdue)
}
