// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// seconds converts the seconds in a table.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// lookAt reserves a look at a job of kind "create" with the given start time. Its flow and its id are the job's name.
func lookAt(l *Limiter, name string, started time.Time) (*Reservation, error) {
	return l.ReservePoll(name, RunningJob{Kind: "create", ID: name, Started: started})
}

// lookIn returns the time until the job may be looked at, or 0.
func lookIn(t *testing.T, l *Limiter, name string, started time.Time) time.Duration {
	t.Helper()
	reservation, err := lookAt(l, name, started)
	if err == nil {
		send(t, l, reservation, 200)
		return 0
	}
	at, ok := retryAt(err)
	if !ok {
		t.Fatal(err)
	}
	return time.Until(at)
}

// TestLooksAreSpaced checks that there are 5 s between a job's start and the first look, and between looks, even if one was not answered.
func TestLooksAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		started := time.Now().Add(-2 * time.Second)
		for _, want := range []time.Duration{3 * time.Second, pollInterval} {
			if got := lookIn(t, l, "job", started).Round(10 * time.Millisecond); got != want {
				t.Errorf("the next look was after %v, want %v", got, want)
			}
			time.Sleep(want - minWait)
			if got := lookIn(t, l, "job", started); got == 0 || got > minWait {
				t.Errorf("the limiter demands another %v", got)
			}
			time.Sleep(minWait)
			if got := lookIn(t, l, "job", started); got != 0 {
				t.Errorf("no look after %v: the limiter demands another %v", want, got)
			}
			started = time.Now()
		}
	})
}

// finish makes the limiter see a job of kind "create" running at one age, unless that is 0, and done at another.
func finish(jobs *jobs, running, done float64) {
	jobs.follow(RunningJob{Kind: "create", ID: "before", Started: time.Now()}, time.Now())
	if running > 0 {
		time.Sleep(seconds(running))
		jobs.observe("before", false, time.Now())
	}
	time.Sleep(seconds(done - running))
	jobs.observe("before", true, time.Now())
}

// TestEarlyEnd checks the age from which a job is likely done: the age at which one in 25 of the last 50 jobs of its kind had ended. The
// duration of a job that was seen running at one age and done at a later one is estimated as the expected age, if that is between the two.
// It is estimated a hundredth lower if the first look soon after the expected age found the job done.
func TestEarlyEnd(t *testing.T) {
	type seen struct {
		times         int
		running, done float64
	}
	type row struct {
		seen []seen
		want time.Duration
	}
	each(t, map[string]row{
		"none":                        {nil, unknown},
		"one":                         {[]seen{{1, 0, 60}}, 60 * time.Second},
		"one that was faster":         {[]seen{{1, 0, 60}, {1, 0, 50}}, 50 * time.Second},
		"seen late":                   {[]seen{{1, 0, 60}, {60, 0, 300}}, 60 * time.Second},
		"23 slower":                   {[]seen{{1, 0, 60}, {23, 100, 102}}, 60 * time.Second},
		"24 slower":                   {[]seen{{1, 0, 60}, {24, 100, 102}}, 100 * time.Second},
		"two faster of 50":            {[]seen{{50, 0, 60}, {2, 0, 30}}, 60 * time.Second},
		"three faster of 50":          {[]seen{{50, 0, 60}, {3, 0, 30}}, 30 * time.Second},
		"three more than 50":          {[]seen{{50, 0, 60}, {3, 0, 60}}, 59400 * time.Millisecond},
		"found soon":                  {[]seen{{50, 0, 60}, {3, 0, 89.9}}, 59400 * time.Millisecond},
		"seen by the age":             {[]seen{{50, 0, 60}, {3, 60, 60}}, 60 * time.Second},
		"found late":                  {[]seen{{50, 0, 60}, {3, 0, 90}}, 60 * time.Second},
		"seen running shortly before": {[]seen{{50, 0, 60}, {3, 59.9, 61}}, 59900 * time.Millisecond},
		"seen running at the age":     {[]seen{{50, 0, 60}, {3, 60, 61}}, 60 * time.Second},
	}, func(t *testing.T, test row) {
		l := NewLimiter(Options{})
		for _, s := range test.seen {
			for range s.times {
				finish(&l.jobs, s.running, s.done)
			}
		}
		if n := len(l.jobs.running); n != 0 {
			t.Errorf("%d jobs still run", n)
		}
		_, _ = lookAt(l, "job", time.Now())
		if got := l.jobs.kinds["create"].early; got != test.want {
			t.Errorf("likely done from %v on, want %v", got, test.want)
		}
	})
}

// TestEndOfAJobConcernsItsKind checks that the end of a job changes when the jobs of its kind that run are looked at, and no others.
func TestEndOfAJobConcernsItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{Limit: 1})
		granted(t, l, "other", Read) // so that the bucket is not full
		started := time.Now()
		look := func(kind string) bool {
			_, err := l.ReservePoll(kind, RunningJob{Kind: kind, ID: kind, Started: started})
			return err == nil
		}
		if look("create") || look("upgrade") {
			t.Error("a job is looked at although no job has ended")
		}
		finish(&l.jobs, 0, 20)
		if !look("create") {
			t.Error("a job is not looked at although it has run as long as another one of its kind took")
		}
		if look("upgrade") {
			t.Error("a job is looked at although no job of its kind has ended")
		}
	})
}

// TestLikelyJobsFirst checks that jobs that are likely done are looked at first, and then those that were not looked at for longest.
func TestLikelyJobsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		jobs := newJobs()
		finish(&jobs, 0, 100)
		l := NewLimiter(Options{Limit: 60, Burst: 1, Wake: func(flow string) { order = append(order, flow) }})
		l.jobs = jobs
		send(t, l, granted(t, l, "drain", Read), 200)
		now := time.Now()
		for name, age := range map[string]float64{"a/due": 110, "a/seen": 150, "a/long due": 120, "a/young": 50, "a/older": 80} {
			j := l.jobs.follow(RunningJob{Kind: "create", ID: name, Started: now.Add(-seconds(age))}, now)
			if name == "a/seen" {
				j.seenAt = seconds(145) // 5 s ago
			}
			_, _ = lookAt(l, name, j.started)
		}
		for i := range 5 {
			time.Sleep(1010 * time.Millisecond) // a look takes a millisecond, and a timer another one
			synctest.Wait()
			if len(order) != i+1 {
				t.Fatalf("after %d s, these were woken: %v", i+1, order)
			}
			if got := lookIn(t, l, order[i], l.jobs.running[order[i]].started); got != 0 {
				t.Errorf("%s was woken, but RetryAt is in %v", order[i], got)
			}
		}
		if got, want := strings.Join(order, ", "), "a/long due, a/due, a/seen, a/older, a/young"; got != want {
			t.Errorf("looked at %s, want %s", got, want)
		}
	})
}

// TestForgottenJobs checks that a job stops counting two hours after the last call of its owner.
func TestForgottenJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Options{})
		started := time.Now()
		_, _ = lookAt(l, "job", started)
		for _, want := range []int{2, 1} { // a new one each time
			time.Sleep(2 * time.Hour)
			_, _ = lookAt(l, "other "+strconv.Itoa(want), time.Now())
			if n := len(l.jobs.running); n != want {
				t.Errorf("%d jobs count, want %d", n, want)
			}
			time.Sleep(time.Second)
		}
		l.ObserveJob("nobody's", true)
	})
}

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

// TestWaitOfAPoll checks that only the time without a token counts as a wait for the rate limit, and not that between two looks.
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
