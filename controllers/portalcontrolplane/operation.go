// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/metrics"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// runner runs the operations of this portal cluster.
func (r *Reconciler) runner(s *scope) operation.Runner {
	m := operation.Runner{
		Object: s.controlPlane, State: &s.State, Writer: r.writer(), Backoff: &r.memory(s).backoff, Recorder: r.Recorder, Observe: metrics.JobEnded,
		Flow: s.flow(), Cluster: cmp.Or(s.controlPlane.Spec.ClusterID, s.controlPlane.Spec.ClusterName),
	}
	if s.infrastructure.IsDone() {
		m.Portal = s.identity.Portal
	}
	return m
}

// start starts an operation that names the cluster by its id. The same target under the same identity is the same attempt. A
// value that op.Attempt already has is part of it. The error is the portal's, if the request was sent and not accepted.
func (r *Reconciler) start(ctx context.Context, s *scope, op *operation.Operation, send func(ctx context.Context) (cloud.Job, error)) (outcome.Outcome, error) {
	op.Attempt = s.attempt(op)
	o, err := r.runner(s).Start(ctx, op, func(ctx context.Context) (cloud.Created, error) {
		job, err := send(ctx)
		return cloud.Created{Job: job}, err
	})
	if cloud.IsNotFound(err) && op.Type != operation.Delete {
		o = r.refusedUnknown(ctx, s, o)
	}
	return o, err
}

func (s *scope) attempt(op *operation.Operation) string {
	return op.Attempt + op.Target + " " + s.identity.Version
}

// refused returns the last refusal of the operation, as long as start would only return it again.
func (r *Reconciler) refused(s *scope, op *operation.Operation) (outcome.Outcome, bool) {
	again := *op
	again.Attempt = s.attempt(op)
	return r.runner(s).Refused(&again)
}

// reconcileOperation polls the operation in flight and stores how it ended. If it has ended, the next steps decide again.
// Creations are polled by reconcileCluster.
func (r *Reconciler) reconcileOperation(ctx context.Context, s *scope) outcome.Outcome {
	if s.Op() == nil || s.Op().Type == operation.Create {
		return outcome.Outcome{}
	}
	if s.controlPlane.DeletionTimestamp.IsZero() && !s.owns() { // a deletion has already checked mayDelete
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
	}
	o := r.runner(s).Poll(ctx)
	switch {
	case o.Kind == outcome.Failed:
		return o
	case s.Op() == nil:
		return outcome.Outcome{}
	case !s.infrastructure.IsDone() && !s.Op().Lost():
		return s.infrastructure.Prefix("%s", s.Op())
	}
	return o
}

// nodesBefore returns the worker nodes that existed before the last scale, and whether that was a scale-down that succeeded.
func (s *scope) nodesBefore() (before []claims.NodeSnapshot, finished bool) {
	if !s.Last.Is(operation.Scale) {
		return nil, false
	}
	return s.Last.Before, s.Last.RemovesNodes() && s.Last.Result == operation.Succeeded
}
