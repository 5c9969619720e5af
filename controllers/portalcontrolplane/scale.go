// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"strconv"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
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

// Note implements operation.Request. Unless the scale was accepted or has succeeded, the workers have to be counted.
func (q scaling) Note(op *operation.Operation, _ string, cause error) {
	switch {
	case op.Result == operation.Refused && insistsOnWorkers(op.Size(), cause):
		op.Result = operation.RefusedEmpty
	case op.Result == operation.Refused, op.Result == operation.RefusedEmpty: // the size is what it was
	case op.Lost(), op.Result == operation.Failed, op.Result == operation.Abandoned:
		q.s.record.Size = operation.SizeUnknown
	default:
		q.s.record.Size = op.Size()
	}
	operation.PutRecord(q.s.controlPlane, q.s.record)
}

// scale asks the portal for the number of workers that the plan wants.
func (r *Reconciler) scale(ctx context.Context, s *scope) outcome.Outcome {
	from := s.record.Size
	if from < 0 {
		from = len(s.nodes)
	}
	return r.scaleTo(ctx, s, from, s.plan.Size)
}

func (r *Reconciler) scaleTo(ctx context.Context, s *scope, from, to int) outcome.Outcome {
	if !s.infrastructure.IsDone() {
		return s.infrastructure
	}
	op := operation.New(operation.Scale, strconv.Itoa(to))
	op.From, op.Sum, op.Nodes, op.Before = from, s.desired.sum, max(to-from, from-to), claims.Sight(s.plan.Present)
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

// settleScale ends a lost scale if there are as many nodes as it asks for. If not, it is decided again after a pause, in any case with a
// request: a portal that still works on the lost scale refuses it as busy. Until then the scale counts as running, so that no node is
// given back which the portal may be removing.
func (r *Reconciler) settleScale(ctx context.Context, s *scope) outcome.Outcome {
	lost := s.op
	if len(s.plan.Present) == lost.Size() {
		if o := s.after(r.machine(s).Finish(ctx, lost, operation.Succeeded, "", scaling{s, lost.Size()})); !o.IsDone() {
			return o
		}
		return outcome.RetryAfter(0)
	}
	if wait := lost.Pause(); wait > 0 {
		return outcome.WaitFor(wait, infrav1.AnswerLostReason, "%s: the answer was lost. %d worker nodes are there", lost, len(s.plan.Present))
	}
	workload, err := r.ClusterCache.GetUncachedClient(ctx, s.clusterKey())
	if err != nil {
		return outcome.Fail(err)
	}
	again := *s
	again.op = nil
	if err := r.planFrom(ctx, &again, r.Live, workload); err != nil {
		return outcome.Fail(err)
	}
	s.desired = again.desired
	to := harmless(len(again.plan.Present), s.desired.sum, lost.Size())
	if again.plan.Scale {
		to = again.plan.Size
	}
	return r.scaleTo(ctx, s, lost.From, to)
}

// harmless is a size that can be asked for after a lost scale, although the plan asks for none because more nodes have to be drained first.
// No node is added beyond the sum, and none is removed but those that were drained for the lost scale.
func harmless(count, sum, lost int) int { return min(count, max(sum, lost)) }
