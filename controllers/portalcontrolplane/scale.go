// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"strconv"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// scale asks the portal for the number of workers that the plan wants. This is where the replicas of MachineDeployments
// become a request to the portal.
func (r *Reconciler) scale(ctx context.Context, s *scope) outcome.Outcome {
	if !s.infrastructure.IsDone() {
		return s.infrastructure
	}
	from, to := s.record.Size, s.plan.Size
	if from < 0 {
		from = len(s.nodes)
	}
	return r.scaleTo(ctx, s, from, to, func(record *journal.Record) { record.Drift = "" })
}

// scaleTo sends the request; noted changes the record in the same write that stores the portal's answer.
func (r *Reconciler) scaleTo(ctx context.Context, s *scope, from, to int, noted func(*journal.Record)) outcome.Outcome {
	op := journal.New(journal.Scale, strconv.Itoa(to))
	op.From, op.Sum = from, s.desired.sum
	o := r.start(ctx, s, op, func(ctx context.Context) (cloud.Job, error) {
		return s.identity.Portal.ScaleCluster(ctx, s.controlPlane.Spec.ClusterID, to)
	}, func(record *journal.Record) {
		record.Size, record.Before = to, nil
		if to < from {
			record.Before = claims.Sight(s.plan.Present)
		}
		noted(record)
	})
	switch {
	case o.IsDone():
		return s.workersOutcome().In(o.After)
	case o.Kind == outcome.Wait && o.Reason == infrav1.PortalBusyReason:
		return o
	}
	return o.Prefix("scale from %d to %d workers", from, to)
}
