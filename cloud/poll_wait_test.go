// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// running makes a governor of 300 requests a minute with so many jobs that run.
func running(jobs int, kind string) *Governor {
	g := NewGovernor(GovernorOptions{Limit: 300})
	for i := range jobs {
		g.JobStarted(kind, kind+strconv.Itoa(i))
	}
	return g
}

// pollIn returns when a job of a kind that started just now is to be looked at.
func pollIn(g *Governor, kind string) time.Duration {
	return time.Until(g.PollAfter(kind, time.Now(), time.Now()))
}

// TestPollsShareTheRate checks how far apart a job's polls are. They get four fifths of five tokens a second, or a fifth
// while others wait.
func TestPollsShareTheRate(t *testing.T) {
	for name, test := range map[string]struct {
		jobs  int
		class Class // of a request that waits; 0: none
		want  time.Duration
	}{
		"few":                         {20, 0, pollInterval},
		"one more":                    {21, 0, 5250 * time.Millisecond},
		"many":                        {400, 0, 100 * time.Second},
		"few, and a mutation waits":   {5, Mutation, pollInterval},
		"one more, a mutation waits":  {6, Mutation, 6 * time.Second},
		"one more, a read waits":      {6, Read, 6 * time.Second},
		"a poll that waits is no one": {20, Poll, pollInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := running(test.jobs, "create")
				if test.class != 0 {
					for i := range 45 {
						granted(t, g, strconv.Itoa(i), Read)
					}
					refusedUntil(t, g, "waits", test.class)
				}
				if got := pollIn(g, "create"); got != test.want {
					t.Errorf("looked at again after %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestFewJobsAreNotLeftAlone checks that a few jobs are polled in any case, and that more are left alone until they are likely
// to be done.
func TestFewJobsAreNotLeftAlone(t *testing.T) {
	for jobs, want := range map[int]time.Duration{20: pollInterval, 21: 100 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := running(jobs, "create")
			g.JobFinished("create", "before", 100*time.Second)
			if got := pollIn(g, "create"); got != want {
				t.Errorf("one of %d jobs is looked at again after %v, want %v", jobs, got, want)
			}
		})
	}
}

// TestJobsThatAreNotDue checks that with many jobs in flight only those count that may be done, and that a job is left alone
// until it is likely to be done, for ten minutes at most.
func TestJobsThatAreNotDue(t *testing.T) {
	for name, test := range map[string]struct {
		likely, age, want time.Duration
	}{
		"new":                       {100 * time.Second, 0, 100 * time.Second},
		"under way":                 {100 * time.Second, 40 * time.Second, 60 * time.Second},
		"nearly done":               {100 * time.Second, 98 * time.Second, 5 * time.Second},
		"due":                       {100 * time.Second, 100 * time.Second, 100 * time.Second},
		"late by more than a round": {100 * time.Second, 1000 * time.Second, 300 * time.Second},
		"very late":                 {100 * time.Second, 2 * time.Hour, 10 * time.Minute},
		"takes hours":               {2 * time.Hour, 0, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGovernor(GovernorOptions{Limit: 300})
				g.JobFinished("create", "before", test.likely)
				started := time.Now()
				for i := range 400 {
					g.JobStarted("create", strconv.Itoa(i))
				}
				time.Sleep(test.age)
				if got := time.Until(g.PollAfter("create", started, time.Now())); got != test.want {
					t.Errorf("looked at again after %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestSomeJobsAreLookedAtEarlier checks that one look in ten comes in the second half of the time that a job is likely to
// take, spread over all of it.
func TestSomeJobsAreLookedAtEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := running(400, "create")
		g.JobFinished("scale", "before", 500*time.Second)
		early, least, most := 0, time.Hour, time.Duration(0)
		for range 400 {
			if wait := pollIn(g, "scale"); wait != 500*time.Second {
				early++
				least, most = min(least, wait), max(most, wait)
			}
		}
		if early != 40 || least < 250*time.Second || least > 280*time.Second || most < 470*time.Second || most >= 500*time.Second {
			t.Errorf("%d of 400 looks come between %v and %v", early, least, most)
		}
	})
}

// TestLikelyDuration checks what is learned from one more job of a kind that was likely to take 100 s, given the age at which
// it was last seen running and the age at which it was seen done. One job moves the estimate by a fifth, an eighth or less,
// and never past the job's own end.
func TestLikelyDuration(t *testing.T) {
	for _, test := range []struct{ running, done, want float64 }{
		{0, 50, 90}, {0, 100, 100}, {90, 110, 100}, {100, 100, 100}, {100, 200, 100.5}, {132, 200, 102}, {1000, 2000, 112.5},
		{100, 100.25, 100.25}, {99, 300, 100}, {0, 99, 99.8},
	} {
		synctest.Test(t, func(t *testing.T) {
			seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
			g := NewGovernor(GovernorOptions{Limit: 300})
			g.JobFinished("create", "before", 100*time.Second)
			g.JobStarted("create", "job")
			if test.running > 0 {
				time.Sleep(seconds(test.running))
				g.saw("job", false)
			}
			time.Sleep(seconds(test.done - test.running))
			g.saw("job", true)
			for i := range 400 {
				g.JobStarted("other", strconv.Itoa(i))
			}
			g.JobFinished("other", "none", time.Hour) // so that none is due
			if got := pollIn(g, "create"); (got - seconds(test.want)).Abs() > time.Millisecond {
				t.Errorf("seen running at %v s and done at %v s: likely to take %v, want %v s", test.running, test.done, got, test.want)
			}
		})
	}
}

// TestFirstJobOfAKind checks what is learned from the first job: the middle between the last look that saw it running and the
// one that saw it done, or what is reported about a job at which nobody looked.
func TestFirstJobOfAKind(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*Governor)
		want    time.Duration
	}{
		"seen running and done": {func(g *Governor) {
			g.JobStarted("scale", "job")
			time.Sleep(40 * time.Second)
			g.saw("job", false)
			time.Sleep(20 * time.Second)
			g.saw("job", true)
			g.JobFinished("scale", "job", 60*time.Second)
		}, 50 * time.Second},
		"seen done only": {func(g *Governor) {
			g.JobStarted("scale", "job")
			time.Sleep(60 * time.Second)
			g.saw("job", true)
		}, 60 * time.Second},
		"reported": {func(g *Governor) {
			g.JobStarted("scale", "job")
			g.JobFinished("scale", "job", 70*time.Second)
		}, 70 * time.Second},
		"reported, not known before": {func(g *Governor) { g.JobFinished("scale", "job", 70*time.Second) }, 70 * time.Second},
		"reported, but looked at": {func(g *Governor) {
			g.JobStarted("scale", "job")
			g.saw("job", false)
			g.JobFinished("scale", "job", 70*time.Second)
		}, pollInterval},
		"of a kind that is known, followed no longer": {func(g *Governor) {
			g.JobFinished("scale", "before", 100*time.Second)
			g.JobFinished("scale", "job", 0)
		}, 100 * time.Second},
		"followed no longer":         {func(g *Governor) { g.JobFinished("scale", "job", 0) }, pollInterval},
		"a job that nobody reported": {func(g *Governor) { g.saw("job", true) }, pollInterval},
		"reported twice": {func(g *Governor) {
			g.JobStarted("scale", "job")
			time.Sleep(30 * time.Second)
			g.JobStarted("scale", "job")
			time.Sleep(30 * time.Second)
			g.saw("job", true)
		}, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGovernor(GovernorOptions{Limit: 300})
				test.happens(g)
				if n := g.Stats().Jobs; n != 0 {
					t.Errorf("%d jobs still run", n)
				}
				for i := range 400 {
					g.JobStarted("other", strconv.Itoa(i))
				}
				g.JobFinished("other", "none", time.Hour) // so that none is due
				if got := pollIn(g, "scale"); got != test.want {
					t.Errorf("looked at again after %v, want %v", got, test.want)
				}
			})
		})
	}
}

// TestForgottenAfterTwoHours checks how long a job counts whose end nobody reports.
func TestForgottenAfterTwoHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := running(1, "create")
		time.Sleep(2 * time.Hour)
		for _, want := range []int{1, 0} {
			pollIn(g, "create")
			if n := g.Stats().Jobs; n != want {
				t.Errorf("%d jobs count, want %d", n, want)
			}
			time.Sleep(time.Second)
		}
	})
}
