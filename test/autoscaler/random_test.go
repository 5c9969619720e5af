// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestPortalWithoutAnOrder checks an idle node at a portal that is said to remove random workers: the replicas may go down if no Pod is killed,
// but they must not rise again.
func TestPortalWithoutAnOrder(t *testing.T) {
	f := newFixture(t, 1, 4)
	suite.Change(f.Fixture, f.controlPlane(), func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = infrav1.RemovalOrderRandom })
	nodes := f.nodes()
	app := newDeployment("app", 3)
	f.place(app, nodes[1:]...)
	f.observe()
	f.autoscale()
	f.Consistently(func(g Gomega) {
		g.Expect(slices.IsSortedFunc(f.seen.Replicas(), func(a, b int32) int { return int(b - a) })).To(BeTrue(), "replicas %v must never rise", f.seen.Replicas())
		g.Expect(f.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
	}, 2*quiet).Should(Succeed())
	f.Expect(f.running("app")).To(HaveLen(3))
	f.scalesUp(app)
}
