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

// CheckPlacement is done if the limits allow clusters in the zone and in the VPC with that identifier.
func (id Identity) CheckPlacement(zone, vpc string) outcome.Outcome {
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
				"PortalCluster, or ask the administrator of the identity", id.Shared, place.noun, joinNames(place.allowed), place.wanted)
		}
	}
	return outcome.Outcome{}
}

// usage is the number of clusters and workers that count against the limits.
type usage struct {
	clusters, workers int
}

func (c usage) plus(other usage) usage {
	return usage{c.clusters + other.clusters, c.workers + other.workers}
}

func (c usage) max(other usage) usage {
	return usage{max(c.clusters, other.clusters), max(c.workers, other.workers)}
}

// checkUsage is done if the limits leave room for a portal cluster that wants `wanted` and has `own`, beside `others`. A
// cluster that does not grow is never refused.
func (id Identity) checkUsage(wanted, own, others usage) outcome.Outcome {
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

func joinNames(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ", ") }
