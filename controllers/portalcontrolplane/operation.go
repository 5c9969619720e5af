// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileOperation polls the operation in flight.
func (r *Reconciler) reconcileOperation(ctx context.Context, s *scope) outcome.Outcome {
	return r.Lifecycle.PollOperation(ctx, &s.Pass)
}
