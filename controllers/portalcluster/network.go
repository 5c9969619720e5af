// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/creation"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileNetwork finds or creates the network.
func (r *Reconciler) reconcileNetwork(ctx context.Context, s *scope) outcome.Outcome {
	network := s.portalCluster.Spec.Network
	if network == nil {
		return outcome.DoneBecause(infrav1.NetworkIsolatedReason, "the portal creates an isolated network with the cluster")
	}
	if network.ID != "" {
		s.networkID = network.ID
		return r.dropOperation(ctx, s)
	}
	if id := s.portalCluster.Annotations[infrav1.NetworkAnnotation]; id != "" {
		return s.networkCreated(id)
	}
	o := r.machinery().Step(ctx, r.networkCreation(s, network.CIDR))
	if id := s.portalCluster.Annotations[infrav1.NetworkAnnotation]; o.IsDone() && id != "" {
		r.event(s, infrav1.EventOperationSucceeded, "CreateNetwork", "the portal created network %s from %s", id, network.CIDR)
		return s.networkCreated(id)
	}
	return o
}

func (s *scope) networkCreated(id string) outcome.Outcome {
	s.networkID = id
	return outcome.DoneBecause(infrav1.NetworkReadyReason, "network %s was created from %s", id, s.portalCluster.Spec.Network.CIDR)
}

// dropOperation forgets an unfinished creation: spec.network.id settles it.
func (r *Reconciler) dropOperation(ctx context.Context, s *scope) outcome.Outcome {
	op, err := journal.Load(s.portalCluster)
	if err != nil {
		return outcome.HoldFor(0, infrav1.AnnotationUnreadableReason, "%v", err)
	}
	if op != nil {
		err = r.writer().Change(ctx, s.portalCluster, func() { journal.Put(s.portalCluster, nil) })
	}
	if err != nil {
		return outcome.Fail(err)
	}
	return outcome.DoneBecause(infrav1.NetworkReadyReason, "")
}

// networkCreation creates a network from its CIDR. The portal can neither list nor delete networks, so there is no way
// to find one that an interrupted call may have made.
func (r *Reconciler) networkCreation(s *scope, cidr string) creation.Creation {
	return creation.Creation{
		Object:  s.portalCluster,
		Portal:  s.identity.Portal,
		Type:    journal.CreateNetwork,
		Noun:    "network",
		Target:  cidr,
		Flow:    s.attemptKey("network"),
		Attempt: cidr + " " + s.identity.Version,
		Reason:  infrav1.NetworkCreatingReason,
		WayOut:  "set spec.network.id to its id and remove spec.network.cidr",
		Call: func(ctx context.Context) (cloud.Created, error) {
			return s.identity.Portal.CreateNetwork(ctx, cloud.CreateNetworkRequest{CIDR: cidr})
		},
		Created: func(id string) {
			if s.portalCluster.Annotations == nil {
				s.portalCluster.Annotations = map[string]string{}
			}
			s.portalCluster.Annotations[infrav1.NetworkAnnotation] = id
		},
		Failed: func() {},
	}
}
