// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestAutoscalerRestartsDuringAScaleDown restarts the autoscaler while the portal takes its time to remove a node. An autoscaler
// that starts takes its taint off all nodes of its groups, and uncordons those nodes. A Pod that is created then must not run on
// the node that the portal is about to remove.
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
	w.Eventually(w.scaleRequests).Should(Equal(2), "the portal is asked to remove the idle node, and takes its time")
	stop()
	w.autoscale()

	w.Expect(w.workload.Create(w.Context(), newDeployment("late", 1))).To(Succeed())
	w.Eventually(func() bool { return slices.ContainsFunc(w.pods("late"), considered) }).Should(BeTrue(), "the scheduler has seen the Pod")
	w.box.Portal.RemoveFault(slow)
	w.Eventually(w.removed).Should(Equal(nodes[3:]), "the portal removed the newest node")
	w.Eventually(func() []string { return w.running("late") }).Should(HaveLen(1), "the autoscaler adds a node for the Pod")
	w.Expect(w.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
}

// considered reports whether the scheduler has found a node for the Pod, or none.
func considered(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}
