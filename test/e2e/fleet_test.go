// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
)

// fleet checks that Clusters of different accounts do not see each other, and that the Clusters of one namespace share its account.
func fleet(t *testing.T) {
	first := prepareSubject(t)
	second := first.another("second")
	other := prepareSubject(t)
	all := []*subject{first, second, other}
	for _, s := range all {
		s.apply(s.generate("", 1))
	}
	for _, s := range all {
		s.settled(1)
	}
	second.scaleTo(2)
	second.settled(2)
	first.Expect(first.changes()).To(ConsistOf("Creating", "Creating", "Scaling size 1 → 2"), "account of the first namespace")
	other.Expect(other.changes()).To(Equal([]string{"Creating"}), "account of the second namespace")
	first.Expect(first.portalCluster().ID).NotTo(Equal(second.portalCluster().ID))

	other.remove()
	for _, s := range all[:2] {
		s.delete()
	}
	first.gone()
	first.Expect(second.portalClusters(t.Context())).To(BeEmpty(), "clusters left at the portal")
}
