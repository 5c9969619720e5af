// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileVPC resolves the VPC's name. One that was found is not looked up again.
func (r *Reconciler) reconcileVPC(ctx context.Context, s *scope) outcome.Outcome {
	vpc := s.portalCluster.Spec.VPC
	switch {
	case vpc.ID != "":
		s.vpcID = vpc.ID
		return outcome.Outcome{}
	case s.portalCluster.Status.VPCID != "":
		s.vpcID = s.portalCluster.Status.VPCID
		return outcome.Outcome{}
	}
	key, attempt := s.attemptKey("vpc"), vpc.Name+" "+s.identity.Version
	if refused, found := r.memory.Backoff.Recall(key, attempt); found {
		return refused
	}
	vpcs, err := r.vpcs.find(ctx, s.identity.Portal, vpc.Name)
	if err != nil {
		return r.memory.Backoff.Refuse(key, attempt, outcome.FromPortalError(err).Prefix("find VPC %q", vpc.Name))
	}
	if len(vpcs) != 1 {
		return r.memory.Backoff.Refuse(key, attempt, outcome.StallFor(0, infrav1.VPCNotFoundReason,
			"%d VPCs of the portal account are named %q, but exactly one must be. Create it, or name another VPC in a new PortalCluster", len(vpcs), vpc.Name))
	}
	s.vpcID = vpcs[0].ID
	return outcome.Outcome{}
}
