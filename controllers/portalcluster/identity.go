// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileIdentity resolves the identity, holds it and logs in with it. A refused login is not repeated before its time, unless
// the Secret changes.
func (r *Reconciler) reconcileIdentity(ctx context.Context, s *scope) outcome.Outcome {
	id, problem := r.Identities.Resolve(ctx, s.portalCluster.Namespace, s.portalCluster.Spec.IdentityRef)
	if !problem.IsDone() {
		return problem
	}
	if held := r.Identities.EnsureFinalizer(ctx, s.portalCluster); !held.IsDone() {
		return held
	}
	return r.memory(s).backoff.Do("identity", id.Version, func() outcome.Outcome {
		if _, err := id.Portal.UserID(ctx); err != nil {
			o := outcome.FromPortalError(err)
			if id.Shared != "" { // its Secret is not the user's to correct
				o = o.Prefix("PortalClusterIdentity %q", id.Shared)
			}
			return o
		}
		s.identity = id
		return outcome.Outcome{}
	})
}
