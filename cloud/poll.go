// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// Rules for looking at jobs.
const (
	pollInterval = 5 * time.Second  // specification, "Jobs and other endpoints": about every 5 seconds
	maxParked    = 30 * time.Second // after which a poll takes a token of the polls' share, even if the job is unlikely to have ended
	jobForgotten = 2 * time.Hour    // after the last poll was asked for
	// A kind's early end is the age at which one in 25 of its last 50 jobs had ended. So two exceptions do not count.
	remembered = 50
	exceptions = 25
	unknown    = 24 * time.Hour // the early end of a kind without a job that has ended
)

// RunningJob is a job that a caller follows. Jobs of one Kind, such as "create", are expected to take about as long.
type RunningJob struct {
	Kind, ID string
	Started  time.Time
}

// jobTracker records which jobs of an account run, and how long their kinds take. It is safe for concurrent use.
type jobTracker struct {
	mu      sync.Mutex
	running map[string]*job
	kinds   map[string]*jobKind
}

func newJobTracker() *jobTracker {
	return &jobTracker{running: map[string]*job{}, kinds: map[string]*jobKind{}}
}

// observe records what a poll of a job showed.
func (b *jobTracker) observe(jobID string, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.running[jobID]
	if j == nil {
		return
	}
	age := time.Since(j.started)
	if !done {
		j.seenAt = age
		j.update()
		return
	}
	j.kind.learn(j.seenAt, age)
	delete(b.running, jobID)
	for _, other := range b.running {
		if other.kind == j.kind {
			other.update()
		}
	}
}

// follow returns the job. It records a job that is new.
func (b *jobTracker) follow(running RunningJob, now time.Time) *job {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.running[running.ID]
	if j == nil {
		maps.DeleteFunc(b.running, func(_ string, other *job) bool { return now.Sub(other.heard) > jobForgotten })
		kind := b.kinds[running.Kind]
		if kind == nil {
			kind = &jobKind{early: unknown}
			b.kinds[running.Kind] = kind
		}
		j = &job{tracker: b, kind: kind, started: running.Started, asked: running.Started}
		j.update()
		b.running[running.ID] = j
	}
	j.heard = now
	return j
}

// job is a job that runs. Its book's lock guards it.
type job struct {
	tracker  *jobTracker
	kind     *jobKind
	started  time.Time
	asked    time.Time                          // when a poll of it was last granted, or else its start
	heard    time.Time                          // when a poll of it was last asked for
	seenAt   time.Duration                      // its age when it was last seen running
	schedule atomic.Pointer[ratelimit.Schedule] // the limiter compares many jobs for each token, so it reads this without a lock
}

var _ ratelimit.PolledJob = (*job)(nil)

// Schedule implements ratelimit.PolledJob. A poll is useful from the early end of the job's kind on.
func (j *job) Schedule() ratelimit.Schedule { return *j.schedule.Load() }

// update computes the schedule again, after a change of the job or of its kind. The book must be locked.
func (j *job) update() {
	j.schedule.Store(&ratelimit.Schedule{
		Earliest: j.asked.Add(pollInterval),
		Likely:   j.started.Add(j.kind.early),
		Overdue:  j.asked.Add(maxParked),
		Due:      j.due(),
	})
}

// Granted implements ratelimit.PolledJob.
func (j *job) Granted(now time.Time) {
	j.tracker.mu.Lock()
	defer j.tracker.mu.Unlock()
	j.asked = now
	j.update()
}

// due returns the time since which the job may have ended unseen, or else the time of the last poll.
func (j *job) due() time.Time {
	if j.kind.early == unknown {
		return j.asked
	}
	return j.started.Add(max(j.kind.early, j.seenAt))
}

// jobKind holds what is known about jobs of one kind.
type jobKind struct {
	took  []time.Duration // by the last jobs
	early time.Duration   // the age from which a job is likely done
}

// learn records the duration of a job that was last seen running at one age and seen done at a later one. If the expected duration
// is in between, that is recorded, so that a late poll does not make the next polls late, too. If the first poll soon after the
// expected duration found the job done, a hundredth less is recorded. Otherwise it would never show that jobs have become faster.
func (k *jobKind) learn(running, done time.Duration) {
	took := min(max(k.early, running), done)
	if len(k.took) == remembered && running < k.early && k.early <= done && done < k.early+maxParked {
		took = max(k.early-k.early/100, running)
	}
	k.took = append(k.took, took)
	k.took = k.took[max(len(k.took)-remembered, 0):]
	k.early = slices.Sorted(slices.Values(k.took))[len(k.took)/exceptions]
}
