// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"errors"

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
		Object: s.controlPlane, Writer: r.writer(), Backoff: &r.memory(s).backoff, Recorder: r.Recorder, Observe: metrics.JobEnded,
		Flow: s.flow(), UserID: s.record.UserID, Cluster: cmp.Or(s.controlPlane.Spec.ClusterID, s.controlPlane.Spec.ClusterName),
	}
	if s.infrastructure.IsDone() {
		m.Portal = s.identity.Portal
	}
	return m
}

// start starts an operation that names the cluster by its id. The same target under the same identity is the same attempt. A
// value that op.Attempt already has is part of it.
func (r *Reconciler) start(ctx context.Context, s *scope, op *operation.Operation, request operation.Request) outcome.Outcome {
	op.Attempt = s.attempt(op)
	sent := &notFoundDetector{Request: request}
	o := s.reloadAfter(r.runner(s).Start(ctx, op, sent))
	if sent.unknown && op.Type != operation.Delete {
		return r.refusedUnknown(ctx, s, o)
	}
	return o
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

// reloadAfter reads again the values that an operation may have changed.
func (s *scope) reloadAfter(o outcome.Outcome) outcome.Outcome {
	if err := s.loadOperation(); err != nil {
		return outcome.Fail(err)
	}
	return o
}

// reconcileOperation polls the operation in flight and stores how it ended. If it has ended, the next steps decide again.
// Creations are polled by reconcileCluster.
func (r *Reconciler) reconcileOperation(ctx context.Context, s *scope) outcome.Outcome {
	if s.op == nil || s.op.Type == operation.Create {
		return outcome.Outcome{}
	}
	if s.controlPlane.DeletionTimestamp.IsZero() && !s.owns() { // a deletion has already checked mayDelete
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
	}
	o := s.reloadAfter(r.runner(s).Poll(ctx, s.request()))
	switch {
	case o.Kind == outcome.Failed:
		return o
	case s.op == nil:
		return outcome.Outcome{}
	case !s.infrastructure.IsDone() && !s.op.Lost():
		return s.infrastructure.Prefix("%s", s.op)
	}
	return o
}

// request returns the Request that the operation in flight was started with.
func (s *scope) request() operation.Request {
	switch s.op.Type {
	case operation.Scale:
		return &scaling{s: s, to: s.op.Size()}
	case operation.Upgrade:
		return &upgrading{s: s}
	case operation.Delete, operation.Create, operation.CreateNetwork:
	}
	return deletion{s}
}

// insistsOnWorkers reports whether the portal refused a cluster without workers. The specification names neither a lower bound nor the
// code of that refusal, and its field is optional.
func insistsOnWorkers(size int, cause error) bool {
	var refusal *cloud.Error
	return size == 0 && (cloud.IsInvalid(cause) || cloud.IsNotAllowed(cause)) && errors.As(cause, &refusal) && (refusal.Field == "" || refusal.Field == "size")
}

// nodesBefore returns the worker nodes that existed before the last scale, and whether that was a scale-down that succeeded.
func (s *scope) nodesBefore() (before []claims.NodeSnapshot, finished bool) {
	if !s.last.Is(operation.Scale) {
		return nil, false
	}
	return s.last.Before, s.last.RemovesNodes() && s.last.Result == operation.Succeeded
}
