// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// vpcFresh is how long a VPC that was found counts for other PortalClusters of the account, so that PortalClusters that are created
// together look it up once. It is short because a person may replace the VPC by another one of that name.
const vpcFresh = time.Minute

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
	return r.memory(s).backoff.Do("vpc", vpc.Name+" "+s.identity.Version, func() (o outcome.Outcome) {
		s.vpcID, o = r.findVPC(ctx, s.identity.Portal, vpc.Name)
		return o
	})
}

// findVPC asks the portal for the id of the one VPC of that name.
func (r *Reconciler) findVPC(ctx context.Context, portal *cloud.Client, name string) (string, outcome.Outcome) {
	return outcome.Ask(r.Answers, outcome.Question{Portal: portal, What: "VPC " + name}, vpcFresh, func() (string, outcome.Outcome) {
		found, err := portal.VPCs(ctx, name)
		switch {
		case err != nil:
			return "", outcome.FromPortalError(err).Prefix("find VPC %q", name)
		case len(found) != 1: // a person may correct that at any time
			return "", outcome.StallFor(0, infrav1.RefusedReason,
				"%d VPCs of the portal account are named %q, but exactly one must be. Create it, or name another VPC in a new PortalCluster", len(found), name)
		}
		return found[0].ID, outcome.Outcome{}
	})
}
