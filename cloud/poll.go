// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"maps"
	"slices"
	"time"
)

// Rules for looking at jobs.
const (
	pollInterval = 5 * time.Second  // specification, "Jobs and other endpoints": about every 5 seconds
	maxParked    = 30 * time.Second // after which a look takes a token of the polls' share, however unlikely the job's end
	jobForgotten = 2 * time.Hour    // after its owner was heard of last
	// A kind's early end is the age at which one in 25 of its last 50 jobs had ended, so that two exceptions do not count.
	remembered = 50
	exceptions = 25
	unknown    = 24 * time.Hour // the early end of a kind of which no job has ended yet
)

// RunningJob is a job that its owner follows. Jobs of a Kind, such as "create", take about as long.
type RunningJob struct {
	Kind, ID string
	Started  time.Time
}

// ReserveLook is Reserve for a look at a job. It refuses within 5 s of the start and of the last look. Then the tokens
// that nothing else needs go to the jobs that are likely done, and what the bucket cannot hold to any job. The owner
// calls it again as soon as it has seen the job run: the refusal keeps its place.
func (g *Governor) ReserveLook(flow string, running RunningJob) (Ticket, error) {
	return g.reserve(placeKey{flow: flow, class: Poll}, &running, g.options.Wake)
}

// saw is told by the client what a look at a job showed.
func (g *Governor) saw(jobID string, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	j := g.jobs.running[jobID]
	if j == nil {
		return
	}
	age := time.Since(j.started)
	if !done {
		j.seenAt = age
		return
	}
	j.kind.learn(j.seenAt, age)
	delete(g.jobs.running, jobID)
}

// jobBook knows which jobs run and how long their kinds take.
type jobBook struct {
	running map[string]*job
	kinds   map[string]*jobKind
}

func newJobBook() jobBook { return jobBook{running: map[string]*job{}, kinds: map[string]*jobKind{}} }

// follow finds the job, or notes that it runs.
func (b *jobBook) follow(running RunningJob, now time.Time) *job {
	j := b.running[running.ID]
	if j == nil {
		maps.DeleteFunc(b.running, func(_ string, other *job) bool { return now.Sub(other.heard) > jobForgotten })
		kind := b.kinds[running.Kind]
		if kind == nil {
			kind = &jobKind{early: unknown}
			b.kinds[running.Kind] = kind
		}
		j = &job{kind: kind, started: running.Started, asked: running.Started}
		b.running[running.ID] = j
	}
	j.heard = now
	return j
}

// job is a job that runs, as far as is known. The nil job is one of which nothing is known: it is due.
type job struct {
	kind    *jobKind
	started time.Time
	asked   time.Time     // when a ticket for a look at it was last granted, or it was started
	heard   time.Time     // from its owner
	seenAt  time.Duration // its age when it was last seen running
}

// due is since when the job may have ended unseen, or else since when nobody asked for it.
func (j *job) due() time.Time {
	if j.kind.early == unknown {
		return j.asked
	}
	return j.started.Add(max(j.kind.early, j.seenAt))
}

// lookable reports whether it is time for another look.
func (j *job) lookable(now time.Time) bool { return j == nil || now.Sub(j.asked) >= pollInterval }

// likely reports whether a look may well find that the job has ended.
func (j *job) likely(now time.Time) bool {
	return j == nil || j.lookable(now) && now.Sub(j.started) >= j.kind.early
}

// parked reports whether the job was left alone for long.
func (j *job) parked(now time.Time) bool { return j == nil || now.Sub(j.asked) >= maxParked }

// jobKind is what is known of a kind of job.
type jobKind struct {
	took  []time.Duration // the last ones
	early time.Duration   // the age from which jobs are likely done
}

// learn takes over the duration of a job that was last seen running at one age and seen done at another. In between, it
// took what was expected: a look that comes late must not make the next ones late. If the first look
// soon after that age found it done, the job counts as a hundredth shorter, or it would not show that jobs have become
// faster.
func (k *jobKind) learn(running, done time.Duration) {
	took := min(max(k.early, running), done)
	if len(k.took) == remembered && running < k.early && k.early <= done && done < k.early+maxParked {
		took = max(k.early-k.early/100, running)
	}
	k.took = append(k.took, took)
	k.took = k.took[max(len(k.took)-remembered, 0):]
	k.early = slices.Sorted(slices.Values(k.took))[len(k.took)/exceptions]
}
