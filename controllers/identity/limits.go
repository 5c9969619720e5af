// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// limitPoll is how often a limit is checked again. No event reports that another namespace has given something back.
const limitPoll = time.Minute

// Place is done if the limits allow clusters in the zone and in the VPC with that identifier.
func (id Identity) Place(zone, vpc string) outcome.Outcome {
	if id.Limits == nil {
		return outcome.Outcome{}
	}
	for _, place := range []struct {
		noun, wanted string
		allowed      []string
	}{
		{"zones", zone, id.Limits.Zones},
		{"VPCs", vpc, id.Limits.VPCs},
	} {
		if len(place.allowed) > 0 && !slices.Contains(place.allowed, place.wanted) {
			return outcome.StallFor(0, infrav1.IdentityLimitReachedReason, "PortalClusterIdentity %q allows the %s %s, but not %q. Name one of these in a new "+
				"PortalCluster, or ask the administrator of the identity", id.Shared, place.noun, list(place.allowed), place.wanted)
		}
	}
	return outcome.Outcome{}
}

// counted is the number of clusters and workers that count against the limits.
type counted struct {
	clusters, workers int
}

func (c counted) plus(other counted) counted {
	return counted{c.clusters + other.clusters, c.workers + other.workers}
}

func (c counted) max(other counted) counted {
	return counted{max(c.clusters, other.clusters), max(c.workers, other.workers)}
}

// admits is done if the limits leave room for a portal cluster that wants `wanted` and has `own`, beside `others`. A cluster that
// does not grow is never refused.
func (id Identity) admits(wanted, own, others counted) outcome.Outcome {
	limit := func(n *int32) int { return int(*n) }
	switch {
	case id.Limits.Clusters != nil && wanted.clusters > own.clusters && others.clusters+wanted.clusters > limit(id.Limits.Clusters):
		return outcome.StallFor(limitPoll, infrav1.IdentityLimitReachedReason, "PortalClusterIdentity %q allows %d clusters, and %d exist. Delete one, or ask the "+
			"administrator of the identity to raise the limit", id.Shared, *id.Limits.Clusters, others.clusters)
	case id.Limits.Workers != nil && wanted.workers > own.workers && others.workers+wanted.workers > limit(id.Limits.Workers):
		return outcome.StallFor(limitPoll, infrav1.IdentityLimitReachedReason, "PortalClusterIdentity %q allows %d workers. Other clusters have %d of them, and this "+
			"one wants %d. Lower the replicas of one of them, or ask the administrator of the identity to raise the limit",
			id.Shared, *id.Limits.Workers, others.workers, wanted.workers)
	}
	return outcome.Outcome{}
}

func list(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ", ") }
