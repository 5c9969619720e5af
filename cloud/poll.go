// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"time"
)

// Rules for looking at jobs.
const (
	pollInterval = 5 * time.Second // specification, "Jobs and other endpoints": about every 5 seconds
	maxUnwatched = 10 * time.Minute
	jobForgotten = 2 * time.Hour // a job whose end nobody reported
)

// jobBook knows which jobs run and how long their kinds take.
type jobBook struct {
	started map[string]startedJob
	took    map[string]estimate
}

type startedJob struct {
	kind string
	at   time.Time
}

func newJobBook() jobBook {
	return jobBook{started: map[string]startedJob{}, took: map[string]estimate{}}
}

// estimate is the time after which a job of a kind is likely to be done.
type estimate struct{ likely time.Duration }

// JobStarted tells that a job runs; more often than once is no harm. Kind is the sort of work, such as "create": jobs
// of a kind take about as long.
func (g *Governor) JobStarted(kind, jobID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.jobs.started[jobID]; !known {
		g.jobs.started[jobID] = startedJob{kind: kind, at: time.Now()}
	}
}

// JobFinished tells that a job has ended, and how long it took as far as its polls could see.
func (g *Governor) JobFinished(kind, jobID string, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.jobs.started, jobID)
	g.jobs.learn(kind, took)
}

// PollAfter says when to look next at a job of the kind that was started at the given time. With few jobs that is
// every 5 s. When polling them all so often would take more than polls may have, a job is left alone until it is
// likely to be done, and then looked at as often as the polls' share of the rate allows.
func (g *Governor) PollAfter(kind string, started, now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(now)
	g.jobs.forget(now)
	rate := g.pollRate()
	if float64(len(g.jobs.started)) <= rate*pollInterval.Seconds() {
		return now.Add(pollInterval)
	}
	wait := stretch(g.jobs.due(now), rate)
	if rest := g.jobs.took[kind].likely - now.Sub(started); rest > wait {
		wait = min(rest, maxUnwatched)
	}
	return now.Add(wait)
}

// stretch is the interval at which so many jobs can be polled at a rate, in polls per second.
func stretch(jobs int, rate float64) time.Duration {
	return max(pollInterval, time.Duration(float64(jobs)/rate*float64(time.Second)))
}

// pollRate is what polls get, in tokens per second: their share while others queue, otherwise nearly everything.
func (g *Governor) pollRate() float64 {
	if g.queue.foregroundWaits() {
		return g.bucket.rate() * pollShare
	}
	return g.bucket.rate() * (1 - pollShare)
}

func (q *queue) foregroundWaits() bool {
	return q.lanes[Mutation].size+q.lanes[Read].size > 0
}

// due counts the jobs that may be done by now.
func (b *jobBook) due(now time.Time) int {
	count := 0
	for _, j := range b.started {
		if now.Sub(j.at) >= b.took[j.kind].likely {
			count++
		}
	}
	return count
}

func (b *jobBook) forget(now time.Time) {
	for id, j := range b.started {
		if now.Sub(j.at) > jobForgotten {
			delete(b.started, id)
		}
	}
}

// learn adjusts the estimate. A job that was found done at about the time foreseen may have been done long before,
// so the estimate shrinks until looks come too early again; one that took longer pulls it up.
func (b *jobBook) learn(kind string, took time.Duration) {
	e, known := b.took[kind]
	switch {
	case took <= 0:
		return
	case !known:
		e.likely = took
	case took <= e.likely+pollInterval:
		e.likely = min(e.likely, took) * 49 / 50
	default:
		e.likely += (took - e.likely) / 8
	}
	b.took[kind] = e
}
