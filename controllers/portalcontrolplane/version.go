// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileVersion upgrades the portal cluster until all of it runs spec.version.
func (r *Reconciler) reconcileVersion(ctx context.Context, s *scope) outcome.Outcome {
	if !s.done(infrav1.ConnectedCondition) {
		return s.blockedByConnection()
	}
	o, starts := r.Lifecycle.Upgrade(ctx, &s.Pass, s.running(), s.members.machines, func(ctx context.Context) outcome.Outcome {
		return r.pausePool(ctx, s, s.ControlPlane.Spec.Version)
	})
	s.keepsPause = s.keepsPause || starts
	return o
}

// running is what shows which version the portal cluster runs.
func (s *scope) running() lifecycle.Running {
	return lifecycle.Running{Record: &s.Record, Server: s.serverVersion, Nodes: s.nodes}
}
