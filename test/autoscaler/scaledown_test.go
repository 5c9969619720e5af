// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fourToThree waits for the autoscaler's scale-down, and checks that it is the only one.
func (w *world) fourToThree() {
	w.Helper()
	w.Eventually(w.seen.Replicas).ShouldNot(Equal([]int32{4}), "the autoscaler must remove a node")
	w.Consistently(w.seen.Replicas, quiet).Should(Equal([]int32{4, 3}), "the replicas must go down once, and stay there")
	w.settled(3)
	w.Expect(w.scaleRequests()).To(Equal(2), "scale requests: one by the test and one for the autoscaler")
	w.Expect(w.removed()).To(HaveLen(1), "the portal must remove one node")
}

// TestUnneededNodeIsRemovedOnce checks one idle node that is not the node that the portal removes first. The Pod on the removed node moves
// to the idle node, and then no node is idle.
func TestUnneededNodeIsRemovedOnce(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	w := newWorld(t, box, 1, 3, 4)
	nodes := w.nodes()
	w.place(newDeployment("app", 3), nodes[1:]...)
	w.observe()
	w.autoscale()
	w.fourToThree()
	w.Expect(w.removed()).To(Equal(nodes[3:]), "the portal must remove the newest node")
	w.Eventually(func() []string { return w.running("app") }).Should(ConsistOf(nodes[:3]), "a Pod must run on each node that is left")
	w.Expect(w.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
}

// TestBlockedNodeIsWaitedFor checks an idle node beside the node that the portal removes first, whose Pod a PodDisruptionBudget protects.
// The provider may let the autoscaler lower the replicas and drain for as long as it takes, or keep the autoscaler from lowering them. In
// both cases the autoscaler must not lower the replicas a second time, neither while it waits nor when the Pod may be evicted.
func TestBlockedNodeIsWaitedFor(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	w := newWorld(t, box, 1, 3, 4)
	nodes := w.nodes()
	precious := newDeployment("precious", 1)
	w.place(precious, nodes[3])
	w.place(newDeployment("app", 2), nodes[1:3]...)
	budget := w.protect(precious)
	w.observe()
	w.autoscale()
	w.Consistently(w.seen.Replicas, quiet).Should(Or(Equal([]int32{4}), Equal([]int32{4, 3})), "the replicas may go down once at most")
	w.Expect(w.seen.Ended()).To(BeEmpty(), "Pods that ended")
	w.Expect(w.running("precious")).To(ConsistOf(nodes[3]))

	w.Expect(w.workload.Delete(w.Context(), budget)).To(Succeed())
	w.fourToThree()
	w.Expect(w.removed()).To(Equal(nodes[3:]), "the portal must remove the newest node")
	w.Eventually(func() []string { return w.running("precious") }).Should(ConsistOf(nodes[0]), "the Pod must move to the idle node")
	w.Expect(w.running("app")).To(ConsistOf(nodes[1:3]))
	w.Expect(w.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
}

// TestPodThatIsNotSafeToEvict checks a Pod that the autoscaler must not evict, on a node that the portal removes before an idle node.
func TestPodThatIsNotSafeToEvict(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	precious := func(w *world, on string) {
		deployment := newDeployment("precious", 1)
		deployment.Spec.Template.Annotations = map[string]string{safeToEvict: "false"}
		w.place(deployment, on)
	}
	t.Run("on the node that goes first", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, box, 1, 3, 4)
		nodes := w.nodes()
		precious(w, nodes[3])
		app := newDeployment("app", 2)
		w.place(app, nodes[1:3]...)
		w.observe()
		w.autoscale()
		w.Consistently(w.seen.Ended, quiet+quiet/2).Should(BeEmpty(), "Pods that ended")
		w.Expect(w.running("precious")).To(ConsistOf(nodes[3]))
		w.Expect(w.seen.Replicas()).To(Equal([]int32{4}), "no node can be removed without evicting the Pod")
		w.scalesUp(app)
	})
	t.Run("on the node that goes second", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, box, 1, 2, 3, 4)
		nodes := w.nodes()
		precious(w, nodes[2])
		w.place(newDeployment("app", 1), nodes[1])
		w.observe()
		w.autoscale()
		w.Eventually(w.seen.Replicas).ShouldNot(Equal([]int32{4}), "the newest node is idle and can be removed")
		w.Consistently(w.seen.Ended, quiet).Should(BeEmpty(), "Pods that ended")
		w.Expect(w.running("precious")).To(ConsistOf(nodes[2]))
		w.Expect(w.seen.Replicas()).To(Equal([]int32{4, 3}), "no second node can be removed without evicting the Pod")
		w.Expect(w.removed()).To(Equal(nodes[3:]))
		w.settled(3)
	})
}

// TestAnnotationOfTheUserStays checks that scale-down-disabled keeps the user's value on nodes while the autoscaler removes another node.
func TestAnnotationOfTheUserStays(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	w := newWorld(t, box, 1, 3, 4)
	nodes := w.nodes()
	w.place(newDeployment("app", 3), nodes[:3]...)
	users := map[string]string{nodes[0]: "false", nodes[1]: "true"}
	for name, value := range users {
		change(w, w.workload, node(name), func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, disabledAnnotation, value) })
	}
	w.observe()
	w.autoscale()
	w.fourToThree()
	for name, value := range users {
		w.Expect(w.seen.Disabled(name)).To(Equal([]string{value}), "values on Node %s, where the user set it to %s", name, value)
	}
	w.Expect(w.seen.Ended()).To(BeEmpty(), "Pods that ended")
}
