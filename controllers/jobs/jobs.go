// SPDX-License-Identifier: Apache-2.0

// Package jobs looks at the portal's jobs, one look per pass and none too many: a reconcile is woken by many events,
// but a job is only asked for when its time has come, and never within 5 seconds (specification, Jobs).
package jobs

import (
	"context"
	"sync"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

const (
	// stuckAfter is when a job that is still seen pending or running counts as stuck (specification, Jobs).
	stuckAfter = 30 * time.Minute
	// stuckPoll is how often a stuck job is looked at. It is never issued again.
	stuckPoll = 5 * time.Minute
	// troublePoll is how often a job is asked for whose answer is an error.
	troublePoll = 30 * time.Second
	// firstLook is how long a job is left alone.
	firstLook = 5 * time.Second
)

// Follower remembers when to look at which job next. The zero value is ready to use.
type Follower struct {
	mu   sync.Mutex
	next map[string]look
}

// look is when a job is asked for next, and what the last answer was other than a job that runs.
type look struct {
	at        time.Time
	trouble   outcome.Outcome // what kept it from coming; Done: nothing did
	unknownTo *cloud.Client   // whom the portal told that there is no such job; nil: nobody
}

// Look returns the job if it has ended (Done). Otherwise the outcome says what is waited for: Later while it runs and
// when it is not the time to look, Hold when it is stuck, and whatever an error means. The bool tells whether the portal said
// that it does not know the job, which holds until the next look, or until another client asks, such as that of a corrected Secret.
func (f *Follower) Look(ctx context.Context, portal *cloud.Client, flow string, op *journal.Operation) (cloud.Job, bool, outcome.Outcome) {
	next := f.due(op)
	if wait := time.Until(next.at); wait > 0 {
		switch {
		case next.unknownTo == portal:
			return cloud.Job{}, true, outcome.Come(wait)
		case next.unknownTo != nil: // another user may know it
		case next.trouble.IsDone():
			return cloud.Job{}, false, outcome.Come(wait)
		default:
			return cloud.Job{}, false, next.trouble.In(wait)
		}
	}
	ticket, err := portal.Reserve(flow, cloud.Poll)
	if err != nil {
		return cloud.Job{}, false, outcome.From(err)
	}
	defer ticket.Release()
	job, err := portal.Job(cloud.WithTicket(ctx, ticket), op.JobID)
	switch {
	case cloud.IsNotFound(err):
		f.remember(op, look{at: time.Now().Add(troublePoll), unknownTo: portal})
		return cloud.Job{}, true, outcome.Come(troublePoll)
	case err != nil:
		return cloud.Job{}, false, f.later(op, trouble(outcome.From(err)))
	case job.Done():
		f.Forget(op.JobID)
		metrics.JobEnded(op.Type, job.Failed(), time.Since(op.Time.Time))
		portal.Governor().JobFinished(string(op.Type), op.JobID, time.Since(op.Time.Time))
		return job, false, outcome.Outcome{}
	}
	return job, false, f.running(portal, op)
}

// trouble keeps an error from being polled as fast as a job.
func trouble(o outcome.Outcome) outcome.Outcome {
	if o.Kind != outcome.Later {
		o.After = max(o.After, troublePoll)
	}
	return o
}

// Accepted returns the outcome of a job that the portal has just accepted, with the time of the first look.
func (f *Follower) Accepted(portal *cloud.Client, op *journal.Operation, o outcome.Outcome) outcome.Outcome {
	next := f.running(portal, op)
	o.After = next.After
	return o
}

// running is the outcome for a job that was just seen pending or running.
func (f *Follower) running(portal *cloud.Client, op *journal.Operation) outcome.Outcome {
	if time.Since(op.Time.Time) > stuckAfter {
		return f.later(op, outcome.HoldFor(stuckPoll, infrav1.JobStuckReason,
			"job %s runs for more than 30 minutes; ask the portal's support, it is not sent again", op.JobID))
	}
	now := time.Now()
	portal.Governor().JobStarted(string(op.Type), op.JobID)
	at := portal.Governor().PollAfter(string(op.Type), op.Time.Time, now)
	return f.later(op, outcome.Come(at.Sub(now)))
}

// later remembers when to look again: never within firstLook.
func (f *Follower) later(op *journal.Operation, o outcome.Outcome) outcome.Outcome {
	o.After = max(o.After, firstLook)
	next := look{at: time.Now().Add(o.After)}
	if o.Kind != outcome.Later {
		next.trouble = o // until the next look: nobody should take a job for running that nobody can see
	}
	f.remember(op, next)
	return o
}

func (f *Follower) remember(op *journal.Operation, next look) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = map[string]look{}
	}
	f.next[op.JobID] = next
}

func (f *Follower) due(op *journal.Operation) look {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, found := f.next[op.JobID]; found {
		return at
	}
	return look{at: op.Time.Add(firstLook)}
}

// Forget drops what is known of a job that nobody will look at again.
func (f *Follower) Forget(jobID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.next, jobID)
}
