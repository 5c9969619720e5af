// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// manageable is done if the provider can manage so many workers. A cluster that has more can be scaled down.
func (s *scope) manageable(workers int) outcome.Outcome {
	if workers > max(maxWorkers, s.Record.Size, len(s.plan.Present)) {
		return outcome.StallFor(0, infrav1.TooManyNodesReason, "the replicas ask for %d workers, but the provider manages at most %d in a cluster. "+
			"Lower the replicas", workers, maxWorkers)
	}
	return outcome.Outcome{}
}

// recordInIdentity records in the PortalClusterIdentity that the portal cluster belongs to this object, as long as the
// namespace may use the identity.
func (r *Reconciler) recordInIdentity(ctx context.Context, s *scope) outcome.Outcome {
	if !s.Infrastructure.IsDone() || s.Identity.Shared == "" || !s.Owns() {
		return outcome.Outcome{}
	}
	if err := r.Identities.RecordCluster(ctx, s.Identity, s.ControlPlane.Namespace, s.ControlPlane.Spec.ClusterID); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Outcome{}
}

// removeFromIdentity removes the record when the object goes, unless another object owns the portal cluster and needs the
// record to delete it.
func (r *Reconciler) removeFromIdentity(ctx context.Context, s *scope) error {
	if s.Identity.Shared == "" {
		return nil
	}
	if mine, err := r.mayDelete(ctx, s); err != nil || !mine {
		return err
	}
	return r.Identities.ForgetCluster(ctx, s.Identity, s.ControlPlane.Namespace, s.ControlPlane.Spec.ClusterID)
}
