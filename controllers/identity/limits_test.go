// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strings"
	"testing"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestPlace checks where an identity allows clusters.
func TestPlace(t *testing.T) {
	limits := &infrav1.PortalIdentityLimits{Zones: []string{"z2", "z1"}, VPCs: []string{"v1"}}
	tests := map[string]struct {
		limits    *infrav1.PortalIdentityLimits
		zone, vpc string
		says      string
	}{
		"allowed":      {limits, "z1", "v1", ""},
		"no limits":    {nil, "z9", "v9", ""},
		"all allowed":  {&infrav1.PortalIdentityLimits{}, "z9", "v9", ""},
		"another zone": {limits, "z3", "v1", `PortalClusterIdentity "team" allows the zones z1, z2, but not "z3"`},
		"another VPC":  {limits, "z1", "v2", `allows the VPCs v1, but not "v2"`},
		"no VPC":       {limits, "z1", "", `allows the VPCs v1, but not ""`},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			o := Identity{Shared: "team", Limits: test.limits}.CheckPlacement(test.zone, test.vpc)
			if o.IsDone() != (test.says == "") || !strings.Contains(o.Message, test.says) {
				t.Errorf("%+v, want … %s …", o, test.says)
			}
		})
	}
}
