// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
)

// scalesUp adds two Pods to a Cluster with at most one idle node, and waits until both run. Tests in which the autoscaler had good reasons
// to do nothing end with it, to show that the autoscaler was able to act.
func (w *world) scalesUp(deployment *appsv1.Deployment) {
	w.Helper()
	pods, nodes := len(w.running(deployment.Name)), len(w.nodes())
	change(w, w.workload, deployment, func(d *appsv1.Deployment) { *d.Spec.Replicas += 2 })
	w.Eventually(func() []string { return w.running(deployment.Name) }).Should(HaveLen(pods + 2))
	w.Expect(len(w.nodes())).To(BeNumerically(">", nodes), "the autoscaler must add a node for a Pod that has none")
}

// TestPendingPods checks that the autoscaler scales up for Pods that have no node, down to zero after the Pods are deleted, and up again
// from zero by the template's description of a node.
func TestPendingPods(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	w := newWorld(t, box, 0, 1)
	w.observe()
	app := newDeployment("app", 3)
	w.Expect(w.workload.Create(w.Context(), app)).To(Succeed())
	w.autoscale()
	w.Eventually(func() []string { return w.running("app") }).Should(HaveLen(3))
	w.Consistently(w.seen.Replicas, quiet/2).Should(Equal([]int32{1, 3}), "the Cluster must have one node for each Pod")
	w.Expect(w.seen.Ended()).To(BeEmpty(), "Pods that ended")

	w.Expect(w.workload.Delete(w.Context(), app)).To(Succeed())
	w.Eventually(w.nodes).Should(BeEmpty(), "no Pod is left, so no node is needed")
	w.settled(0)
	w.seen.forget()

	again := newDeployment("again", 1)
	w.Expect(w.workload.Create(w.Context(), again)).To(Succeed())
	w.Eventually(func() []string { return w.running("again") }).Should(HaveLen(1))
	w.Consistently(w.seen.Ended, quiet/2).Should(BeEmpty(), "Pods that ended")
	w.settled(1)
}
