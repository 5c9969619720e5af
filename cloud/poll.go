// SPDX-License-Identifier: Apache-2.0

package cloud

import "time"

// Rules for looking at jobs.
const (
	pollInterval = 5 * time.Second  // specification, "Jobs and other endpoints": about every 5 seconds
	maxUnwatched = 10 * time.Minute // for which no job is left alone
	jobForgotten = 2 * time.Hour    // a job whose end nobody reported
)

// JobStarted tells that a job runs; more often than once is no harm. Kind is the sort of work, such as "create": jobs
// of a kind take about as long.
func (g *Governor) JobStarted(kind, jobID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.jobs.running[jobID]; !known {
		g.jobs.running[jobID] = &runningJob{kind: kind, started: time.Now()}
	}
}

// JobFinished tells that a job has ended, or is followed no longer. How long it took is only used if nobody looked at
// the job through a Client of this governor, which knows better.
func (g *Governor) JobFinished(kind, jobID string, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	job := g.jobs.running[jobID]
	delete(g.jobs.running, jobID)
	if took > 0 && (job == nil || job.looks == 0) {
		g.jobs.learn(kind, 0, took)
	}
}

// PollAfter says when to look next at a job of the kind that was started at the given time. With few jobs that is
// in 5 s. When polling them all so often would take more than polls may have, a job is left alone until it is likely
// to be done, and then looked at as often as the polls' share of the rate allows.
func (g *Governor) PollAfter(kind string, started, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(now)
	g.jobs.forget(now)
	rate := g.pollRate()
	if float64(len(g.jobs.running)) <= rate*pollInterval.Seconds() {
		return now.Add(pollInterval)
	}
	wait := max(pollInterval, time.Duration(float64(g.jobs.due(now))/rate*float64(time.Second)))
	return now.Add(max(wait, g.jobs.leave(kind, now.Sub(started))))
}

// pollRate is what polls get, in tokens per second: their share while others queue, otherwise nearly everything.
func (g *Governor) pollRate() float64 {
	if g.queue.foregroundWaits() {
		return g.bucket.rate() * guaranteed[Poll]
	}
	return g.bucket.rate() * (1 - guaranteed[Poll])
}

// saw is told by the client what a look at a job showed.
func (g *Governor) saw(jobID string, done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	job := g.jobs.running[jobID]
	if job == nil {
		return
	}
	job.looks++
	age := time.Since(job.started)
	if !done {
		job.seenAt = age
		return
	}
	g.jobs.learn(job.kind, job.seenAt, age)
	delete(g.jobs.running, jobID)
}

// jobBook knows which jobs run and how long their kinds take.
type jobBook struct {
	running map[string]*runningJob
	likely  map[string]time.Duration // by kind: the age at which nine of ten jobs are done
}

type runningJob struct {
	kind    string
	started time.Time
	seenAt  time.Duration // its age when it was last seen running
	looks   int
}

func newJobBook() jobBook {
	return jobBook{running: map[string]*runningJob{}, likely: map[string]time.Duration{}}
}

// leave is how long a job of that age is best left alone: until it is likely to be done; for a kind that is not known
// yet, or a job that is late, a part of the time it has taken already.
func (b *jobBook) leave(kind string, age time.Duration) time.Duration {
	likely := b.likely[kind]
	if age < likely {
		return min(likely-age, maxUnwatched)
	}
	return min((age-likely)/3, maxUnwatched)
}

// due counts the jobs that may be done by now.
func (b *jobBook) due(now time.Time) int {
	count := 0
	for _, job := range b.running {
		if now.Sub(job.started) >= b.likely[job.kind] {
			count++
		}
	}
	return count
}

func (b *jobBook) forget(now time.Time) {
	for id, job := range b.running {
		if now.Sub(job.started) > jobForgotten {
			delete(b.running, id)
		}
	}
}

// learn adjusts what is likely by a job that was last seen running at one age and done at another. A first look that
// found it done makes the next ones come a little earlier; one that came too early makes them come later by nine
// times as much, so that about one look in ten is too early.
func (b *jobBook) learn(kind string, running, done time.Duration) {
	const stride = 1.0 / 400
	likely, known := b.likely[kind]
	switch {
	case !known || done < likely: // the end is certain to come before what we thought
		likely = done
	case running > likely+likely/4:
		likely = running
	case running > 0:
		likely += time.Duration(9 * stride * float64(likely))
	default:
		likely -= time.Duration(stride * float64(likely))
	}
	b.likely[kind] = likely
}

func (q *queue) foregroundWaits() bool {
	return q.lanes[Mutation].size+q.lanes[Read].size > 0
}
