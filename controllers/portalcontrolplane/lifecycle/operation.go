// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"

	"context"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// PollOperation polls the operation in flight and stores how it ended. If it has ended, the next steps decide again.
// Creations are polled by Ensure.
func (k *Clusters) PollOperation(ctx context.Context, p *pass.Pass) outcome.Outcome {
	if p.Op() == nil || p.Op().Type == operation.Create {
		return outcome.Outcome{}
	}
	if p.ControlPlane.DeletionTimestamp.IsZero() && !p.Owns() { // a deletion has already checked MayDelete
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
	}
	o := p.Runner().Poll(ctx)
	switch {
	case o.Kind == outcome.Failed:
		return o
	case p.Op() == nil:
		return outcome.Outcome{}
	case !p.Infrastructure.IsDone() && !p.Op().Lost():
		return p.Infrastructure.Prefix("%s", p.Op())
	}
	return o
}
