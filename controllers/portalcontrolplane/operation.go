// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileOperation polls the operation in flight.
func (r *Reconciler) reconcileOperation(ctx context.Context, s *scope) outcome.Outcome {
	return r.Lifecycle.PollOperation(ctx, &s.Pass)
}

// nodesBefore returns the worker nodes that existed before the last scale, and whether that was a scale-down that succeeded.
func (s *scope) nodesBefore() (before []claims.NodeSnapshot, finished bool) {
	if !s.Last.Is(operation.Scale) {
		return nil, false
	}
	return s.Last.Before, s.Last.RemovesNodes() && s.Last.Result == operation.Succeeded
}
