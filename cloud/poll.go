// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"math"
	"time"
)

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
	if took > 0 && (job == nil || !job.looked) {
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
	job.looked = true
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
	likely  map[string]time.Duration // by kind: the age at which most jobs are done
	asked   int
}

type runningJob struct {
	kind    string
	started time.Time
	seenAt  time.Duration // its age when it was last seen running
	looked  bool
}

func newJobBook() jobBook {
	return jobBook{running: map[string]*runningJob{}, likely: map[string]time.Duration{}}
}

// leave is how long a job of that age is best left alone: until it is likely to be done; for a kind that is not known
// yet, or a job that is late, a part of the time it has taken already. One job in ten is looked at earlier, somewhere
// in the second half of that time: nothing else would tell that jobs have become faster.
func (b *jobBook) leave(kind string, age time.Duration) time.Duration {
	likely := b.likely[kind]
	if age >= likely {
		return min((age-likely)/3, maxUnwatched)
	}
	b.asked++
	if b.asked%10 == 0 {
		_, spread := math.Modf(float64(b.asked) * math.Phi) // evenly spread, whatever the number
		likely -= time.Duration(spread / 2 * float64(likely))
	}
	return min(max(likely-age, 0), maxUnwatched)
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

// learn adjusts what is likely by a job that was last seen running at one age, and done at another. No job moves it
// past its own end: hundreds may report what was decided on the same old estimate. And none moves it far: a job may be
// an exception.
func (b *jobBook) learn(kind string, running, done time.Duration) {
	likely, known := b.likely[kind]
	switch {
	case !known && running > 0:
		likely = (running + done) / 2
	case !known:
		likely = done
	case done < likely:
		likely -= (likely - done) / 5
	case running >= likely:
		likely += min(done-likely, max(likely/200, min((running-likely)/16, likely/8)))
	}
	b.likely[kind] = likely
}

func (q *queue) foregroundWaits() bool {
	return q.lanes[Mutation].size+q.lanes[Read].size > 0
}
