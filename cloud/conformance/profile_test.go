// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/profile"
)

// deviates is the profile of portals that do not follow the specification everywhere: they check rules in the job, answer late and send pages.
const deviates = "cloudstack"

// TestProfiles runs the suite at a portal of every other shipped profile, because each of them follows the specification.
func TestProfiles(t *testing.T) {
	if *portalURL != "" {
		t.Skip("a portal is being checked")
	}
	for _, name := range profile.Names() {
		if name == deviates {
			continue
		}
		t.Run(name, func(t *testing.T) {
			p, err := profile.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			r := newResult()
			runAll(t, r, atEmulatorsLike(func(o *emulator.Options) {
				users, volumes := o.Users, o.VolumesPerCluster
				p.Apply(o)
				o.Users, o.VolumesPerCluster, o.Seed = users, volumes, 1
			}))
			if c := r.count(); c.failed > 0 || c.unrun > 0 || c.passed < 150 {
				t.Errorf("%+v", c)
			}
		})
	}
}
