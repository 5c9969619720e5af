// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestAutoscalerRestartsDuringAScaleDown checks that a new Pod does not run on the node that the portal is about to remove. The test
// restarts the autoscaler while the portal's job is still running. An autoscaler that starts removes its taint from all nodes of its
// groups, and uncordons those nodes.
func TestAutoscalerRestartsDuringAScaleDown(t *testing.T) {
	f := newFixture(t, 1, 3, 4)
	nodes := f.nodes()
	f.place(newDeployment("app", 3), nodes[:3]...)
	slow := "slow-" + f.User.Account
	f.Expect(f.Box.Portal.Inject(emulator.Fault{
		ID: slow, Method: "POST", Path: "/kubernetes-clusters/*/scale", Account: f.User.Account, Job: emulator.JobStuck,
	})).To(Succeed())
	f.observe()
	stop := f.autoscale()
	f.Eventually(f.scaleRequests).Should(Equal(2), "the provider must ask the portal to remove the idle node")
	stop()
	f.autoscale()

	f.Expect(f.workload.Create(f.Context(), newDeployment("late", 1))).To(Succeed())
	f.Eventually(func() bool {
		return len(f.running("late")) > 0 || slices.Equal(f.seen.Replicas(), []int32{4, 3, 4})
	}).Should(BeTrue(), "the Pod must have a node, or the autoscaler must ask for one")
	f.Box.Portal.RemoveFault(slow)
	f.Eventually(f.removed).Should(Equal(nodes[3:]), "the portal must remove the newest node")
	f.Eventually(func() []string { return f.running("late") }).Should(HaveLen(1), "the Pod must run on the node that the autoscaler asked for")
	f.Expect(f.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
}
