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
	needAutoscaler(t)
	t.Parallel()
	w := newWorld(t, box, 1, 3, 4)
	nodes := w.nodes()
	w.place(newDeployment("app", 3), nodes[:3]...)
	slow := "slow-" + w.account
	w.Expect(w.box.Portal.Inject(emulator.Fault{
		ID: slow, Method: "POST", Path: "/kubernetes-clusters/*/scale", Account: w.account, Job: emulator.JobStuck,
	})).To(Succeed())
	w.observe()
	stop := w.autoscale()
	w.Eventually(w.scaleRequests).Should(Equal(2), "the provider must ask the portal to remove the idle node")
	stop()
	w.autoscale()

	w.Expect(w.workload.Create(w.Context(), newDeployment("late", 1))).To(Succeed())
	w.Eventually(func() bool {
		return len(w.running("late")) > 0 || slices.Equal(w.seen.Replicas(), []int32{4, 3, 4})
	}).Should(BeTrue(), "the Pod must have a node, or the autoscaler must ask for one")
	w.box.Portal.RemoveFault(slow)
	w.Eventually(w.removed).Should(Equal(nodes[3:]), "the portal must remove the newest node")
	w.Eventually(func() []string { return w.running("late") }).Should(HaveLen(1), "the Pod must run on the node that the autoscaler asked for")
	w.Expect(w.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
}
