// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// plan is a Look with a fixed schedule, in seconds from its start.
type plan struct {
	start                     time.Time
	earliest, likely, overdue float64
	granted                   time.Time
}

func (p *plan) at(seconds float64) time.Time {
	return p.start.Add(time.Duration(seconds * float64(time.Second)))
}

func (p *plan) Schedule() Schedule {
	return Schedule{Earliest: p.at(p.earliest), Likely: p.at(p.likely), Overdue: p.at(p.overdue), Due: p.start}
}

func (p *plan) Granted(now time.Time) { p.granted = now }

// TestPolledJobs checks which polls get a reservation, depending on their schedule and on how many of 45 tokens are left. RetryAt of a refused
// poll is its earliest time, or at most 30 s later.
func TestPolledJobs(t *testing.T) {
	for name, test := range map[string]struct {
		plan plan
		left int
		told float64 // 0 means granted
	}{
		"likely":                        {plan{}, 1, 0},
		"likely, no token":              {plan{}, 0, 30},
		"likely later":                  {plan{likely: 10}, 44, 30},
		"likely later, full bucket":     {plan{likely: 10}, 45, 0},
		"overdue, but polls spent":      {plan{likely: 10}, 30, 30},
		"too early":                     {plan{earliest: 40}, 45, 40},
		"too early, although it is due": {plan{earliest: 4}, 1, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLimiter(Options{Limit: 1})
				for i := range 45 - test.left {
					granted(t, l, strconv.Itoa(i), Read)
				}
				test.plan.start = time.Now()
				_, err := l.ReservePoll("job", &test.plan)
				at, refused := retryAt(err)
				if refused != (test.told > 0) || refused && !at.Equal(test.plan.at(test.told)) {
					t.Errorf("RetryAt is after %v, want %v s", time.Until(at), test.told)
				}
				if test.plan.granted.IsZero() != refused {
					t.Errorf("refused %t, but the look was recorded as granted at %v", refused, test.plan.granted)
				}
			})
		})
	}
}

// TestOverduePolls checks when a poll that is not likely useful gets a token that other calls could use: if it is overdue, and the polls have
// left two tokens of their share unused. They get a token of it every five seconds here.
func TestOverduePolls(t *testing.T) {
	for name, test := range map[string]struct {
		overdue, after float64 // seconds
		want           bool
	}{
		"overdue":                  {overdue: 10, after: 10, want: true},
		"not overdue":              {overdue: 10.1, after: 10, want: false},
		"overdue, one token saved": {overdue: 9, after: 9.5, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLimiter(Options{Limit: 60})
				drain(t, l)
				job := plan{start: time.Now(), likely: 100, overdue: test.overdue}
				time.Sleep(time.Until(job.at(test.after)))
				if _, err := l.ReservePoll("job", &job); (err == nil) != test.want {
					t.Errorf("after %v s: %v, want a reservation: %t", test.after, err, test.want)
				}
			})
		})
	}
}
