// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// newDisorderlySandbox starts a sandbox whose portal removes random workers. The shared sandbox's portal removes the newest ones.
func newDisorderlySandbox(t *testing.T) *sandbox.Sandbox {
	t.Helper()
	return suite.StartFor(t, options(emulator.VictimsRandom))
}

// showDisorder scales up and down until the portal has removed workers that no order explains.
func (f *fixture) showDisorder() {
	f.Helper()
	for range 12 {
		before := len(f.nodes())
		f.scale(before + 2)
		f.settled(before + 2)
		f.scale(before)
		f.settled(before)
		controlPlane := &infrav1.PortalControlPlane{}
		f.Expect(f.Box.Client.Get(f.Context(), f.cluster, controlPlane)).To(Succeed())
		if controlPlane.Status.RemovalOrder.Order == "Random" {
			return
		}
	}
	f.Fatal("the portal's choices matched an order twelve times in a row")
}

// TestPortalWithoutAnOrder checks a portal that removes random workers, and an idle node: the replicas may go down if no Pod is killed, but
// they must not rise again.
func TestPortalWithoutAnOrder(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	f := newFixture(t, newDisorderlySandbox(t), 1, 4)
	f.showDisorder()
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
