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
	// stuckPoll is how often the provider looks at a stuck job, which it never sends again.
	stuckPoll = 5 * time.Minute
	// troublePoll is how often the provider looks at a job if the answer is an error.
	troublePoll = 30 * time.Second
	// firstLook is how long the provider waits after an error before it looks at the job again.
	firstLook = 5 * time.Second
)

// Memory is what a manager remembers of operations besides their annotations. It may be lost at any time. The zero value is ready
// to use.
type Memory struct {
	// Backoff of refused requests, and of looks at jobs.
	Backoff outcome.Backoff
}

// look asks the portal for the job and returns it if it has ended (Done). Otherwise the outcome is Retry while the job runs or it
// is too early to look, Stalled when the job is stuck, or the outcome of an error. The bool reports whether the portal answered
// that it does not know the job. That answer is remembered until the next look, or until another client asks, such as that of a
// corrected Secret.
//
// Many events wake a reconcile, but look only asks when the account's limiter allows it, and never within 5 seconds
// (specification, Jobs). An error is also remembered until the next look, so that a job whose state is unknown does not look like
// a running one.
func (m Machine) look(ctx context.Context, op *Operation) (cloud.Job, bool, outcome.Outcome) {
	unknown := fmt.Sprintf("%s is unknown to %p", op.JobID, m.Portal)
	if o, found := m.Memory.Backoff.Recall(m.looks(), unknown); found {
		return cloud.Job{}, true, o
	}
	if o, found := m.Memory.Backoff.Recall(m.looks(), op.JobID); found {
		return cloud.Job{}, false, o
	}
	reservation, err := m.reserveLook(op)
	if err != nil {
		return cloud.Job{}, false, outcome.From(err)
	}
	defer reservation.Cancel()
	job, err := m.Portal.Job(cloud.WithReservation(ctx, reservation), op.JobID)
	switch {
	case cloud.IsNotFound(err):
		return cloud.Job{}, true, m.Memory.Backoff.Remember(m.looks(), unknown, outcome.RetryAfter(troublePoll))
	case err != nil:
		o := outcome.From(err)
		if o.Kind != outcome.Retry {
			o.After = max(o.After, troublePoll) // an error is polled more slowly than a job
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

// running returns the outcome for a job that was just seen pending or running, or was just accepted.
func (m Machine) running(op *Operation) outcome.Outcome {
	if limit := op.StuckAfter(); time.Since(op.Time.Time) > limit {
		return m.lookLater(op, outcome.StallFor(stuckPoll, infrav1.JobStuckReason,
			"job %s has been running for more than %d minutes. Ask the portal's support: the provider does not send it again%s",
			op.JobID, int(limit.Minutes()), m.wayToAbandon(op)))
	}
	reservation, err := m.reserveLook(op)
	if err == nil { // the answer was late, so the next pass looks
		reservation.Cancel()
		return outcome.RetryAfter(firstLook)
	}
	return outcome.From(err)
}

// reserveLook makes a reservation for a look at the job. If it is refused, the flow keeps its place and the error has the time to
// try again.
func (m Machine) reserveLook(op *Operation) (*ratelimit.Reservation, error) {
	return m.Portal.ReserveLook(m.Flow, cloud.RunningJob{Kind: string(op.Type), ID: op.JobID, Started: op.Time.Time})
}

// wayToAbandon returns a sentence with the command that abandons a stuck or lost operation.
func (m Machine) wayToAbandon(op *Operation) string {
	if !op.Type.Repeatable() {
		return ""
	}
	return ". To abandon the operation, and let the provider decide again: " + m.annotate(infrav1.AbandonOperationAnnotation, op)
}

// lookLater remembers the result of the last look until the next one, which is never within firstLook.
func (m Machine) lookLater(op *Operation, o outcome.Outcome) outcome.Outcome {
	return m.Memory.Backoff.Remember(m.looks(), op.JobID, o.In(max(o.After, firstLook)))
}

// looks returns the backoff key of looks at jobs.
func (m Machine) looks() string { return m.Flow + "/job" }
