// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileOperation polls the operation in flight and stores how it ended. If it has ended, the next steps decide again.
// Creations are polled by reconcileCluster.
func (r *Reconciler) reconcileOperation(ctx context.Context, s *scope) outcome.Outcome {
	if s.Op() == nil || s.Op().Type == operation.Create {
		return outcome.Outcome{}
	}
	if s.ControlPlane.DeletionTimestamp.IsZero() && !s.Owns() { // a deletion has already checked mayDelete
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
	}
	o := s.Runner().Poll(ctx)
	switch {
	case o.Kind == outcome.Failed:
		return o
	case s.Op() == nil:
		return outcome.Outcome{}
	case !s.Infrastructure.IsDone() && !s.Op().Lost():
		return s.Infrastructure.Prefix("%s", s.Op())
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
