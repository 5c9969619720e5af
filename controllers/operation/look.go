// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
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
	// Backoff of refused requests, and of looks at jobs.
	Backoff outcome.Backoff

	creations atomic.Int32 // on the wire
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
// (specification, Jobs). Until then the last answer counts: a job that cannot be seen must not be taken for one that runs.
func (m Machine) look(ctx context.Context, op *Operation) (cloud.Job, bool, outcome.Outcome) {
	unknown := fmt.Sprintf("%s is unknown to %p", op.JobID, m.Portal)
	if o, found := m.Memory.Backoff.Recall(m.looks(), unknown); found {
		return cloud.Job{}, true, o
	}
	if o, found := m.Memory.Backoff.Recall(m.looks(), op.JobID); found {
		return cloud.Job{}, false, o
	}
	if wait := time.Until(op.Time.Add(firstLook)); wait > 0 {
		return cloud.Job{}, false, outcome.RetryAfter(wait)
	}
	ticket, err := m.Portal.Reserve(m.Flow, cloud.Poll)
	if err != nil {
		return cloud.Job{}, false, outcome.From(err)
	}
	defer ticket.Release()
	job, err := m.Portal.Job(cloud.WithTicket(ctx, ticket), op.JobID)
	switch {
	case cloud.IsNotFound(err):
		return cloud.Job{}, true, m.Memory.Backoff.Remember(m.looks(), unknown, outcome.RetryAfter(troublePoll))
	case err != nil:
		o := outcome.From(err)
		if o.Kind != outcome.Retry {
			o.After = max(o.After, troublePoll) // an error is not polled as fast as a job
		}
		return cloud.Job{}, false, m.lookLater(op, o)
	case job.Done():
		took := time.Since(op.Time.Time)
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
		return m.lookLater(op, outcome.StallFor(stuckPoll, infrav1.JobStuckReason,
			"job %s has been running for more than %d minutes. Ask the portal's support, the job is not sent again%s",
			op.JobID, int(limit.Minutes()), m.wayToAbandon(op)))
	}
	now := time.Now()
	m.Portal.Governor().JobStarted(string(op.Type), op.JobID)
	at := m.Portal.Governor().PollAfter(string(op.Type), op.Time.Time, now)
	return m.lookLater(op, outcome.RetryAfter(at.Sub(now)))
}

// wayToAbandon is the way out of a stuck or lost operation, as a sentence's end.
func (m Machine) wayToAbandon(op *Operation) string {
	if !op.Type.Repeatable() {
		return ""
	}
	return ". To end the operation and have it decided again: " + m.annotate(infrav1.AbandonOperationAnnotation, op)
}

// lookLater remembers what the last look showed until the next one, which is never within firstLook.
func (m Machine) lookLater(op *Operation, o outcome.Outcome) outcome.Outcome {
	return m.Memory.Backoff.Remember(m.looks(), op.JobID, o.In(max(o.After, firstLook)))
}

// looks is the key of the looks at jobs.
func (m Machine) looks() string { return m.Flow + "/job" }
