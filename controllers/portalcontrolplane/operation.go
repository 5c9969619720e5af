// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// start begins an operation that is absolute and names the cluster by its id: scale, upgrade or delete. Done means that
// the portal accepted it, and says when to look at the job. accepted changes the record in the same write that stores the job.
func (r *Reconciler) start(ctx context.Context, s *scope, op *journal.Operation, call func(context.Context) (cloud.Job, error), accepted func(*journal.Record)) outcome.Outcome {
	key, attempt := s.attempt(op)
	if refused, found := r.backoff.Recall(key, attempt); found {
		return refused
	}
	ticket, err := s.identity.Portal.Reserve(s.flow(), cloud.Mutation)
	if err != nil {
		return outcome.From(err)
	}
	defer ticket.Release()
	if err := r.change(ctx, s, func() { journal.Put(s.controlPlane, op) }); err != nil {
		return outcome.Fail(fmt.Errorf("store the intent to %s: %w", op.Type, err))
	}
	ctx, cancel := journal.Detach(ctx)
	defer cancel()
	job, err := call(cloud.WithTicket(ctx, ticket))
	if err != nil {
		return r.notStarted(ctx, s, op, err)
	}
	err = r.settle(ctx, s, func() {
		op.JobID = job.ID
		journal.Put(s.controlPlane, op)
		if accepted != nil {
			accepted(s.record)
			journal.PutRecord(s.controlPlane, s.record)
		}
	})
	if err != nil {
		return outcome.Fail(err)
	}
	r.event(s, infrav1.EventOperationStarted, string(op.Type), "the portal accepted to %s (job %s)", describe(op), job.ID)
	return r.jobs.Accepted(s.identity.Portal, op, outcome.Outcome{})
}

// unheardRetry is how long an operation whose answer nobody heard is left to show its effect before it is decided anew.
const unheardRetry = 30 * time.Second

// notStarted drops the intent of a call that failed. Nobody may know whether a call that was cut off had an effect: then
// the workers have to be counted, and the decision is made anew; a portal that did act on it answers that it is busy.
func (r *Reconciler) notStarted(ctx context.Context, s *scope, op *journal.Operation, cause error) outcome.Outcome {
	o := outcome.From(cause)
	if cloud.IsUnknownOutcome(cause) {
		o = outcome.WaitFor(unheardRetry, infrav1.PortalUnavailableReason, "nobody heard the portal's answer; trying again: %v", cause)
	}
	err := r.settle(ctx, s, func() {
		journal.Put(s.controlPlane, nil)
		if op.Type != journal.Scale {
			return
		}
		if cloud.IsUnknownOutcome(cause) {
			s.record.Size = journal.SizeUnknown
		} else if insistsOnWorkers(target(op), cause) {
			s.record.Floor = 1
		} else if target(op) < op.From && (cloud.IsQuota(cause) || cloud.IsCapacity(cause) || cloud.IsInvalid(cause) || cloud.IsNotAllowed(cause)) {
			s.record.RefusedSum = ptr.To(op.Sum)
		}
		journal.PutRecord(s.controlPlane, s.record)
	})
	if err != nil {
		return outcome.Fail(err)
	}
	key, attempt := s.attempt(op)
	return r.backoff.Refuse(key, attempt, o)
}

// insistsOnWorkers tells whether the portal refused a cluster without workers; the specification names no lower bound.
func insistsOnWorkers(size int, cause error) bool {
	var refusal *cloud.Error
	return size == 0 && cloud.IsInvalid(cause) && errors.As(cause, &refusal) && refusal.Field == "size"
}

// attempt names an operation to the backoff: the same target under the same identity is the same attempt.
func (s *scope) attempt(op *journal.Operation) (key, attempt string) {
	return s.flow() + "/" + string(op.Type), op.Target + " " + s.identity.Version
}

// reconcileOperation looks at the operation in flight, and stores how it ended. Creations are the business of
// reconcileCluster.
func (r *Reconciler) reconcileOperation(ctx context.Context, s *scope) outcome.Outcome {
	op := s.op
	switch {
	case op == nil || op.Type == journal.Create:
		return outcome.Outcome{}
	case op.JobID == "":
		return r.dropIntent(ctx, s)
	case !s.infrastructure.IsDone():
		return s.infrastructure
	}
	job, gone, o := r.jobs.Look(ctx, s.identity.Portal, s.flow(), op)
	switch {
	case gone && r.stranger(ctx, s):
		return outcome.HoldFor(time.Minute, infrav1.AccountChangedReason, "the portal does not know job %s, which user %s started: "+
			"see to it that the identity Secret holds that user's credentials", op.JobID, s.record.UserID)
	case gone:
		return r.ended(ctx, s, op, &cloud.Error{Message: "the portal does not know the job any more"})
	case !o.IsDone():
		return o
	case job.Failed():
		return r.ended(ctx, s, op, job.Error)
	}
	return r.ended(ctx, s, op, nil)
}

// stranger tells whether the identity is, or may be, of another portal user than the one that created the cluster: what the
// portal does not know then may be there all the same (specification, HTTP status codes: 404).
func (r *Reconciler) stranger(ctx context.Context, s *scope) bool {
	userID, err := s.identity.Portal.UserID(ctx)
	return err != nil || s.record.UserID != "" && s.record.UserID != userID
}

// dropIntent forgets an intent whose answer never came: the targets are absolute, so it is decided anew.
func (r *Reconciler) dropIntent(ctx context.Context, s *scope) outcome.Outcome {
	err := r.change(ctx, s, func() {
		if s.op.Type == journal.Scale {
			s.record.Size = journal.SizeUnknown
			journal.PutRecord(s.controlPlane, s.record)
		}
		journal.Put(s.controlPlane, nil)
	})
	if err != nil {
		return outcome.Fail(err)
	}
	return outcome.Outcome{}
}

// ended stores how a job ended. The next step of the same pass decides what comes then.
func (r *Reconciler) ended(ctx context.Context, s *scope, op *journal.Operation, failure *cloud.Error) outcome.Outcome {
	ctx, cancel := journal.Detach(ctx)
	defer cancel()
	err := r.settle(ctx, s, func() {
		journal.Put(s.controlPlane, nil)
		remember(s.record, op, failure != nil)
		journal.PutRecord(s.controlPlane, s.record)
	})
	if err != nil {
		return outcome.Fail(err)
	}
	r.jobs.Forget(op.JobID)
	key, attempt := s.attempt(op)
	if failure == nil {
		r.backoff.Forget(key)
		r.event(s, infrav1.EventOperationSucceeded, string(op.Type), "the portal finished to %s", describe(op))
		return outcome.Outcome{}
	}
	r.warn(s, infrav1.EventOperationFailed, string(op.Type), "job %s to %s failed: %v", op.JobID, describe(op), failure)
	o := outcome.From(failure)
	if o.Kind == outcome.Later || o.Reason == infrav1.InternalErrorReason {
		o = outcome.WaitFor(0, infrav1.JobFailedReason, "%v", failure)
	}
	r.backoff.Refuse(key, attempt, o.Prefix("job %s to %s failed", op.JobID, describe(op)))
	return outcome.Outcome{}
}

// remember notes in the record what a finished operation means.
func remember(record *journal.Record, op *journal.Operation, failed bool) {
	switch {
	case op.Type == journal.Scale && failed:
		record.Size, record.Before = journal.SizeUnknown, nil
		if target(op) < op.From {
			record.RefusedSum = ptr.To(op.Sum)
		}
	case op.Type == journal.Scale:
		record.Size, record.RefusedSum = target(op), nil
	case op.Type == journal.Upgrade && failed:
		record.FailedUpgrade = op.Target
	case op.Type == journal.Upgrade:
		record.FailedUpgrade, record.Version = "", op.Target
	}
}

// target is the size that a scale is to reach.
func target(op *journal.Operation) int {
	size, err := strconv.Atoi(op.Target)
	if err != nil {
		return journal.SizeUnknown
	}
	return size
}

func describe(op *journal.Operation) string {
	switch op.Type {
	case journal.Scale:
		return fmt.Sprintf("scale from %d to %s workers", op.From, op.Target)
	case journal.Upgrade:
		return "upgrade to " + op.Target
	case journal.Delete:
		return "delete cluster " + op.Target
	case journal.Create, journal.CreateNetwork:
	}
	return string(op.Type) + " " + op.Target
}
