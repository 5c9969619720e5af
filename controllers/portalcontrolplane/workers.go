// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileWorkers keeps the workers as the replicas ask.
func (r *Reconciler) reconcileWorkers(ctx context.Context, s *scope) (o outcome.Outcome) {
	if s.BeingDeleted() {
		if err := r.workers(s).Release(ctx, &s.Pass, s.way); err != nil {
			return outcome.Fail(err)
		}
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so it is not scaled")
	}
	if !s.done(infrav1.ConnectedCondition) {
		return s.blockedByConnection()
	}
	s.plan, o = r.workers(s).Reconcile(ctx, &s.Pass, s.way, s.members, s.nodes, s.keepsPause)
	return o
}

func (r *Reconciler) workers(s *scope) workers.Keeper {
	return workers.Keeper{Client: r.Client, Live: r.Live, Access: r.Access, Memory: &r.memory(s).workers}
}
