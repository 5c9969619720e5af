// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

const (
	// stuckPoll is how often the provider polls a stuck job, which it never sends again.
	stuckPoll = 5 * time.Minute
	// failedPoll is how often the provider polls a job if the answer is an error.
	failedPoll = 30 * time.Second
	// pollAfterError is how long the provider waits after an error before it polls the job again.
	pollAfterError = 5 * time.Second
	// pollKey is the backoff key of polls of jobs.
	pollKey = "job"
)

// pollJob asks the portal for the job and returns it if it has ended (Done). Otherwise the outcome is Retry while the job runs
// or it is too early to poll, Stalled when the job is stuck, or the outcome of an error. The bool reports whether the portal
// answered that it does not know the job. Then the message is the request's id. That answer is remembered until the next poll, or until
// another portal user asks, such as that of a corrected Secret.
//
// Many events wake a reconcile, but pollJob only asks when the account's limiter allows it, and never within 5 seconds
// (specification, Jobs). An error is also remembered until the next poll, so that a job whose state is unknown does not look like
// a running one.
func (m Runner) pollJob(ctx context.Context, op *Operation) (cloud.Job, bool, outcome.Outcome) {
	unknown := fmt.Sprintf("%s is unknown to %s", op.JobID, m.Portal)
	if o, found := m.Backoff.Recall(pollKey, unknown); found {
		return cloud.Job{}, true, o
	}
	if o, found := m.Backoff.Recall(pollKey, op.JobID); found {
		return cloud.Job{}, false, o
	}
	reservation, err := m.reservePoll(op)
	if err != nil {
		return cloud.Job{}, false, outcome.FromPortalError(err)
	}
	defer reservation.Cancel()
	job, err := m.Portal.Job(cloud.WithReservation(ctx, reservation), op.JobID)
	switch {
	case cloud.IsNotFound(err):
		o := outcome.RetryAfter(failedPoll)
		o.Message = outcome.RequestID(err)
		return cloud.Job{}, true, m.Backoff.Remember(pollKey, unknown, o)
	case err != nil:
		o := outcome.FromPortalError(err)
		if o.Kind != outcome.Retry {
			o.RequeueAfter = max(o.RequeueAfter, failedPoll) // an error is polled more slowly than a job
		}
		return cloud.Job{}, false, m.pollLater(op, o)
	case job.Done():
		if m.Observe != nil {
			m.Observe(op.Type, job.Failed(), time.Since(op.Time.Time))
		}
		return job, false, outcome.Outcome{}
	}
	return job, false, m.running(op)
}

// running returns the outcome for a job that was just seen pending or running, or was just accepted.
func (m Runner) running(op *Operation) outcome.Outcome {
	if m.Progress.StuckIn(op) < 0 {
		return m.pollLater(op, outcome.StallFor(stuckPoll, infrav1.JobStuckReason,
			"job %s has shown no progress for more than %d minutes. Ask the portal's support: the provider does not send it again%s",
			op.JobID, int(stuckAfter.Minutes()), m.wayToAbandon(op)))
	}
	reservation, err := m.reservePoll(op)
	if err == nil { // the answer was late, so the next pass polls
		reservation.Cancel()
		return outcome.RetryAfter(pollAfterError)
	}
	return outcome.FromPortalError(err)
}

// reservePoll makes a reservation for a poll of the job. If it is refused, the flow keeps its place and the error has the time to
// try again.
func (m Runner) reservePoll(op *Operation) (*ratelimit.Reservation, error) {
	return m.Portal.ReservePoll(m.Flow, ratelimit.RunningJob{Kind: string(op.Type), ID: op.JobID, Started: op.Time.Time})
}

// wayToAbandon returns a sentence with the command that abandons a stuck or lost operation.
func (m Runner) wayToAbandon(op *Operation) string {
	if !op.Type.Repeatable() {
		return ""
	}
	return ". To abandon the operation, and let the provider decide again: " + Command(m.Object, infrav1.DecisionAbandon, op.ID)
}

// pollLater remembers the result of the last poll until the next one, which is never within pollAfterError.
func (m Runner) pollLater(op *Operation, o outcome.Outcome) outcome.Outcome {
	return m.Backoff.Remember(pollKey, op.JobID, o.In(max(o.RequeueAfter, pollAfterError)))
}

// LastProgress remembers when the nodes last showed progress of an operation: an upgrade of 40 nodes takes hours, and is healthy while one node
// after the other changes. A manager that has just started remembers nothing, and counts from the first time that it sees the nodes. The
// zero value is ready to use.
type LastProgress struct {
	operation string // its ID
	shown     uint64
	since     time.Time
}

// See notes what the nodes show while the operation, which may be nil, is in flight. Any other value than before is progress.
func (p *LastProgress) See(op *Operation, shown uint64) {
	if op != nil && (p.operation != op.ID || p.shown != shown) {
		*p = LastProgress{operation: op.ID, shown: shown, since: time.Now()}
	}
}

// StuckIn returns how long it takes until the operation counts as stuck: when it has shown no progress for stuckAfter. If no nodes were seen
// since it began, its age counts (specification, Jobs). p may be nil.
func (p *LastProgress) StuckIn(op *Operation) time.Duration {
	since := op.Time.Time
	if p != nil && p.operation == op.ID && p.since.After(since) {
		since = p.since
	}
	return stuckAfter - time.Since(since)
}
