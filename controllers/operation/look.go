// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

const (
	// stuckPoll is how often a stuck job is looked at. It is never sent again.
	stuckPoll = 5 * time.Minute
	// troublePoll is how often a job is asked for whose answer is an error.
	troublePoll = 30 * time.Second
	// firstLook is how long a job is left alone.
	firstLook = 5 * time.Second
	// maxCreations is how many creations may be on the wire at one instant: as many as a crash may leave unknown.
	maxCreations = 4
)

// Memory is what a manager remembers of operations besides the annotations. It may be lost at any time. The zero value is ready to
// use.
type Memory struct {
	// Backoff of refused requests.
	Backoff outcome.Backoff

	creations atomic.Int32 // on the wire
	mu        sync.Mutex
	next      map[string]look // by job
}

// look is when a job is asked for next, and what the last answer was, unless the job was running.
type look struct {
	at        time.Time
	trouble   outcome.Outcome // why the job could not be seen running; Done: it was
	unknownTo *cloud.Client   // the client that got a 404; nil: none
}

// takeSlot reports whether a creation may be sent now. If so, freeSlot has to be called after it.
func (m *Memory) takeSlot() bool {
	if m.creations.Add(1) <= maxCreations {
		return true
	}
	m.freeSlot()
	return false
}

func (m *Memory) freeSlot() { m.creations.Add(-1) }

// look returns the job if it has ended (Done). Otherwise the outcome says what is waited for: Retry while it runs and
// when it is not the time to look, Stalled when it is stuck, and whatever an error means. The bool reports that the portal said
// that it does not know the job. That holds until the next look, or until another client asks, such as that of a corrected Secret.
//
// A reconcile is woken by many events, but a job is only asked for when its time has come, and never within 5 seconds
// (specification, Jobs).
func (m Machine) look(ctx context.Context, op *Operation) (cloud.Job, bool, outcome.Outcome) {
	next := m.Memory.due(op)
	if wait := time.Until(next.at); wait > 0 {
		switch {
		case next.unknownTo == m.Portal:
			return cloud.Job{}, true, outcome.RetryAfter(wait)
		case next.unknownTo != nil: // another user may know it
		case next.trouble.IsDone():
			return cloud.Job{}, false, outcome.RetryAfter(wait)
		default:
			return cloud.Job{}, false, next.trouble.In(wait)
		}
	}
	ticket, err := m.Portal.Reserve(m.Flow, cloud.Poll)
	if err != nil {
		return cloud.Job{}, false, outcome.From(err)
	}
	defer ticket.Release()
	job, err := m.Portal.Job(cloud.WithTicket(ctx, ticket), op.JobID)
	switch {
	case cloud.IsNotFound(err):
		m.Memory.remember(op, look{at: time.Now().Add(troublePoll), unknownTo: m.Portal})
		return cloud.Job{}, true, outcome.RetryAfter(troublePoll)
	case err != nil:
		o := outcome.From(err)
		if o.Kind != outcome.Retry {
			o.After = max(o.After, troublePoll) // an error is not polled as fast as a job
		}
		return cloud.Job{}, false, m.Memory.later(op, o)
	case job.Done():
		took := time.Since(op.Time.Time)
		m.Memory.forget(op.JobID)
		m.Portal.Governor().JobFinished(string(op.Type), op.JobID, took)
		if m.Observe != nil {
			m.Observe(op.Type, job.Failed(), took)
		}
		return job, false, outcome.Outcome{}
	}
	return job, false, m.running(op)
}

// running is the outcome for a job that was just seen pending or running, or just accepted.
func (m Machine) running(op *Operation) outcome.Outcome {
	if limit := op.StuckAfter(); time.Since(op.Time.Time) > limit {
		return m.Memory.later(op, outcome.StallFor(stuckPoll, infrav1.JobStuckReason,
			"job %s has been running for more than %d minutes. Ask the portal's support, the job is not sent again%s",
			op.JobID, int(limit.Minutes()), m.wayToAbandon(op)))
	}
	now := time.Now()
	m.Portal.Governor().JobStarted(string(op.Type), op.JobID)
	at := m.Portal.Governor().PollAfter(string(op.Type), op.Time.Time, now)
	return m.Memory.later(op, outcome.RetryAfter(at.Sub(now)))
}

// wayToAbandon is the way out of a stuck or lost operation, as a sentence's end.
func (m Machine) wayToAbandon(op *Operation) string {
	if !op.Type.Repeatable() {
		return ""
	}
	return ". To end the operation and have it decided again: " + m.annotate(infrav1.AbandonOperationAnnotation, op)
}

// later remembers when to look again: never within firstLook.
func (m *Memory) later(op *Operation, o outcome.Outcome) outcome.Outcome {
	o.After = max(o.After, firstLook)
	next := look{at: time.Now().Add(o.After)}
	if o.Kind != outcome.Retry {
		next.trouble = o // until the next look: a job that cannot be seen must not be taken for one that runs
	}
	m.remember(op, next)
	return o
}

func (m *Memory) remember(op *Operation, next look) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next == nil {
		m.next = map[string]look{}
	}
	m.next[op.JobID] = next
}

func (m *Memory) due(op *Operation) look {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, found := m.next[op.JobID]; found {
		return at
	}
	return look{at: op.Time.Add(firstLook)}
}

// forget drops what is known of a job that is not looked at again.
func (m *Memory) forget(jobID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.next, jobID)
}
