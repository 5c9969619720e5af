// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/profile"
)

// TestLifeAtTheLikeliestPortal creates, scales, upgrades and deletes a cluster at the portal of the profile cloudstack, with all of its traits.
// Each wish is fulfilled without a person, and the portal makes one cluster. Left out are the faults after which a person has to look at the
// portal: lost answers to a creation, and deletions whose jobs never end.
func TestLifeAtTheLikeliestPortal(t *testing.T) {
	likeliest, err := profile.Load("cloudstack")
	if err != nil {
		t.Fatal(err)
	}
	portal := QuickPortal()
	likeliest.Apply(&portal)
	portal.Faults = slices.DeleteFunc(portal.Faults, func(f emulator.Fault) bool {
		return slices.Contains([]string{"empty answer", "deletion without an end"}, f.ID)
	})
	seeded(t, Options{Seed: 39, Portal: portal}, func(w *World) {
		w.CreateCluster(3)
		w.Settle(3)
		for _, replicas := range []int{5, 2} {
			w.Scale(int32(replicas))
			w.Settle(replicas)
		}
		w.SetVersion(newVersion)
		w.Upgraded(newVersion)
		w.Until("no node is cordoned", Patience, func() string { return strings.Join(w.cordoned(), ", ") })
		w.End()
		Equal(w, "creations", strings.Count(w.words(), "create"), 1)
	})
}
