// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"strconv"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// scaling is a request for a number of workers.
type scaling struct {
	s  *scope
	to int
}

// Send implements operation.Request. This is where the replicas of MachineDeployments become a request to the portal.
func (q scaling) Send(ctx context.Context) (cloud.Created, error) {
	job, err := q.s.identity.Portal.ScaleCluster(ctx, q.s.controlPlane.Spec.ClusterID, q.to)
	return cloud.Created{Job: job}, err
}

// Note implements operation.Request. After a scale that failed half way, or whose answer was lost, the portal runs at most the larger of
// both numbers.
func (q scaling) Note(op *operation.Operation, _ string, cause error) {
	switch {
	case op.Result == operation.Refused && insistsOnWorkers(op.Size(), cause):
		op.Result = operation.RefusedEmpty
	case op.Result == operation.Refused, op.Result == operation.RefusedEmpty: // the size is what it was
	case op.Lost(), op.Result == operation.Failed, op.Result == operation.Abandoned:
		q.s.record.Size, q.s.record.SizeUncertain = max(op.From, op.Size()), true
	default:
		q.s.record.Size, q.s.record.SizeUncertain = op.Size(), false
	}
	operation.PutRecord(q.s.controlPlane, q.s.record)
}

// scale asks the portal for the number of workers that the plan wants.
func (r *Reconciler) scale(ctx context.Context, s *scope) outcome.Outcome {
	from, to := s.record.Size, s.plan.Size
	if from < 0 {
		from = len(s.plan.Present)
	}
	if !s.infrastructure.IsDone() {
		return s.infrastructure
	}
	op := operation.New(operation.Scale, strconv.Itoa(to))
	op.From, op.FromAtMost, op.Nodes, op.Before = from, s.record.SizeUncertain, max(to-from, from-to), s.plan.Before
	if s.op.Lost() {
		op.Before = s.op.Before // some may be gone since
	}
	o := r.start(ctx, s, op, scaling{s, to})
	switch {
	case s.refusedEmpty() && to == 0:
		return outcome.RetryAfter(0) // decided again: one worker stays
	case o.IsDone():
		return s.workersOutcome().In(o.After)
	}
	return o
}

// refusedEmpty reports whether the portal has just refused a cluster without workers.
func (s *scope) refusedEmpty() bool { return s.last != nil && s.last.Result == operation.RefusedEmpty }

// scaleReached ends a lost scale whose result the Nodes show.
func (r *Reconciler) scaleReached(ctx context.Context, s *scope) outcome.Outcome {
	lost := s.op
	if o := s.after(r.machine(s).Finish(ctx, lost, operation.Succeeded, "", scaling{s, lost.Size()})); !o.IsDone() {
		return o
	}
	return outcome.RetryAfter(0)
}
