// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

const (
	// stuckPoll is how often a stuck job is looked at. It is never sent again.
	stuckPoll = 5 * time.Minute
	// troublePoll is how often a job is asked for whose answer is an error.
	troublePoll = 30 * time.Second
	// firstLook is how long a job is left alone after an answer that was an error.
	firstLook = 5 * time.Second
)

// Memory is what a manager remembers of operations besides the annotations. It may be lost at any time. The zero value is ready to
// use.
type Memory struct {
	// Backoff of refused requests, and of looks at jobs.
	Backoff outcome.Backoff
}

// look returns the job if it has ended (Done). Otherwise the outcome says what is waited for: Retry while it runs and
// when it is not the time to look, Stalled when it is stuck, and whatever an error means. The bool reports that the portal said
// that it does not know the job. That holds until the next look, or until another client asks, such as that of a corrected Secret.
//
// A reconcile is woken by many events, but a job is only asked for when the account's governor says so, and never within 5
// seconds (specification, Jobs). If the last answer was an error, it counts until the next look: a job that cannot be seen must
// not be taken for one that runs.
func (m Machine) look(ctx context.Context, op *Operation) (cloud.Job, bool, outcome.Outcome) {
	unknown := fmt.Sprintf("%s is unknown to %p", op.JobID, m.Portal)
	if o, found := m.Memory.Backoff.Recall(m.looks(), unknown); found {
		return cloud.Job{}, true, o
	}
	if o, found := m.Memory.Backoff.Recall(m.looks(), op.JobID); found {
		return cloud.Job{}, false, o
	}
	ticket, err := m.reserveLook(op)
	if err != nil {
		return cloud.Job{}, false, outcome.From(err)
	}
	defer ticket.Cancel()
	job, err := m.Portal.Job(cloud.WithReservation(ctx, ticket), op.JobID)
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
		if m.Observe != nil {
			m.Observe(op.Type, job.Failed(), time.Since(op.Time.Time))
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
	ticket, err := m.reserveLook(op)
	if err == nil { // the answer came late: the next pass looks
		ticket.Cancel()
		return outcome.RetryAfter(firstLook)
	}
	return outcome.From(err)
}

// reserveLook reserves a ticket for a look at the job. A refusal keeps the place, and its time is when to try again.
func (m Machine) reserveLook(op *Operation) (*ratelimit.Reservation, error) {
	return m.Portal.ReserveLook(m.Flow, cloud.RunningJob{Kind: string(op.Type), ID: op.JobID, Started: op.Time.Time})
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
