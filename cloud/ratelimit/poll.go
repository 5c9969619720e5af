// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"maps"
	"slices"
	"time"
)

// Rules for polls of jobs.
const (
	pollInterval = 5 * time.Second  // specification, "Jobs and other endpoints": about every 5 seconds
	maxParked    = 30 * time.Second // after which a poll takes a token of the polls' share, even if the job is unlikely to have ended
	maxPollWait  = 30 * time.Second // after which a refused poll is asked for again. By then it may be worth a token
	jobForgotten = 2 * time.Hour    // after the last poll was asked for
	// A kind's early end is the age at which one in 25 of its last 50 jobs had ended. So two exceptions do not count.
	remembered = 50
	exceptions = 25
	unknown    = 24 * time.Hour // the early end of a kind without a job that has ended
)

// RunningJob is a job that a caller polls until it has ended. Jobs of one Kind, such as "create", are expected to take about as long.
type RunningJob struct {
	Kind, ID string
	Started  time.Time
}

// jobs records which jobs of an account run, and how long their kinds take.
type jobs struct {
	running map[string]*job
	kinds   map[string]*jobKind
}

func newJobs() jobs { return jobs{running: map[string]*job{}, kinds: map[string]*jobKind{}} }

// follow returns the job. It records a job that is new.
func (all *jobs) follow(running RunningJob, now time.Time) *job {
	j := all.running[running.ID]
	if j == nil {
		maps.DeleteFunc(all.running, func(_ string, other *job) bool { return now.Sub(other.heard) > jobForgotten })
		kind := all.kinds[running.Kind]
		if kind == nil {
			kind = &jobKind{early: unknown}
			all.kinds[running.Kind] = kind
		}
		j = &job{kind: kind, started: running.Started, asked: running.Started}
		all.running[running.ID] = j
	}
	j.heard = now
	return j
}

// observe records what a poll of a job showed.
func (all *jobs) observe(jobID string, done bool, now time.Time) {
	j := all.running[jobID]
	if j == nil {
		return
	}
	age := now.Sub(j.started)
	if !done {
		j.seenAt = age
		return
	}
	j.kind.learn(j.seenAt, age)
	delete(all.running, jobID)
}

// job is a job that runs. Its methods accept nil, for a call that is no poll of a job: a token may always be spent on it.
type job struct {
	kind    *jobKind
	started time.Time
	asked   time.Time     // when a poll of it was last granted, or else its start
	heard   time.Time     // when a poll of it was last asked for
	seenAt  time.Duration // its age when it was last seen running
}

// isPollable reports whether a token may be spent on a poll.
func (j *job) isPollable(now time.Time) bool {
	return j == nil || !now.Before(j.asked.Add(pollInterval))
}

// isLikely reports whether a poll is worth a free token: from the early end of the job's kind on. Before, it only gets a token that a
// full bucket cannot hold.
func (j *job) isLikely(now time.Time) bool {
	return j == nil || j.isPollable(now) && !now.Before(j.started.Add(j.kind.early))
}

// isOverdue reports whether a poll is worth a token of the polls' guaranteed share.
func (j *job) isOverdue(now time.Time) bool { return j == nil || !now.Before(j.asked.Add(maxParked)) }

// due returns the time since which the job may have ended unseen, or else the time of the last poll. The poll that has been due
// longest goes first.
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
