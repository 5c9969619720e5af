// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"strconv"
	"testing"
	"time"
)

// polled makes a job that was polled, and is likely done, so many seconds from now.
func polled(l *Limiter, asked, likely float64) *job {
	now := time.Now()
	j := &job{kind: &jobKind{early: seconds(likely)}, started: now, asked: now.Add(seconds(asked)), heard: now}
	l.jobs.running["job"] = j
	return j
}

// TestPolledJobs checks which polls get a reservation, depending on the last poll, on when the job is likely done, and on how many of 45
// tokens are left. RetryAt of a refused poll is its earliest time, or at most 30 s later.
func TestPolledJobs(t *testing.T) {
	type row struct {
		asked, likely float64 // seconds from now
		left          int
		told          float64 // seconds from now. 0 means granted
	}
	each(t, map[string]row{
		"likely":                        {-5, 0, 1, 0},
		"likely, no token":              {-5, 0, 0, 30},
		"likely later":                  {-5, 10, 44, 30},
		"likely later, full bucket":     {-5, 10, 45, 0},
		"overdue, but polls spent":      {-30, 10, 30, 30},
		"too early":                     {35, 0, 45, 40},
		"too early, although it is due": {-1, 0, 1, 4},
	}, func(t *testing.T, test row) {
		l := NewLimiter(Options{Limit: 1})
		for i := range 45 - test.left {
			granted(t, l, strconv.Itoa(i), Read)
		}
		start := time.Now()
		j := polled(l, test.asked, test.likely)
		_, err := l.ReservePoll("job", RunningJob{ID: "job"})
		at, refused := retryAt(err)
		if refused != (test.told > 0) || refused && !at.Equal(start.Add(seconds(test.told))) {
			t.Errorf("RetryAt is after %v, want %v s", time.Until(at), test.told)
		}
		if j.asked.Equal(start) == refused {
			t.Errorf("refused %t, but the look was recorded as granted at %v", refused, j.asked)
		}
	})
}

// TestOverduePolls checks when a poll that is not likely useful gets a token that other calls could use: if it is overdue, and the polls have
// left two tokens of their share unused. They get a token of it every five seconds here.
func TestOverduePolls(t *testing.T) {
	type row struct {
		asked, after float64 // seconds
		want         bool
	}
	each(t, map[string]row{
		"overdue":                  {asked: -20, after: 10, want: true},
		"not overdue":              {asked: -19.9, after: 10, want: false},
		"overdue, one token saved": {asked: -21, after: 9.5, want: false},
	}, func(t *testing.T, test row) {
		l := NewLimiter(Options{Limit: 60})
		drain(t, l)
		polled(l, test.asked, 100)
		time.Sleep(seconds(test.after))
		if _, err := l.ReservePoll("job", RunningJob{ID: "job"}); (err == nil) != test.want {
			t.Errorf("after %v s: %v, want a reservation: %t", test.after, err, test.want)
		}
	})
}

// TestWaitOfAPoll checks that the time in which a job must not be polled does not count as a wait for the rate limit, and that the time
// without a token does.
func TestWaitOfAPoll(t *testing.T) {
	type row struct {
		options Options
		spent   int
		want    time.Duration
	}
	each(t, map[string]row{
		"free tokens":         {Options{}, 0, 0},
		"a token after 7.5 s": {Options{Limit: 8, Burst: 1}, 1, 2600 * time.Millisecond}, // the last refusal is for 0.1 s
	}, func(t *testing.T, test row) {
		l := NewLimiter(test.options)
		for range test.spent {
			send(t, l, granted(t, l, "other", Read), 200)
		}
		running := RunningJob{Kind: "scale", ID: "job", Started: time.Now()}
		r, err := l.ReservePoll("flow", running)
		for ; err != nil; r, err = l.ReservePoll("flow", running) {
			at, _ := retryAt(err)
			time.Sleep(time.Until(at))
		}
		if waited := r.Waited().Round(10 * time.Millisecond); waited != test.want {
			t.Errorf("waited %v, want %v", waited, test.want)
		}
	})
}
