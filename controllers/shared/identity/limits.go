// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

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
			return outcome.StallFor(0, infrav1.IdentityNotAllowedReason, "PortalClusterIdentity %q allows the %s %s, but not %q. Name one of these in the "+
				"PortalCluster, or ask the administrator of the identity", id.Shared, place.noun, outcome.Names(place.allowed), place.wanted)
		}
	}
	return outcome.Outcome{}
}
