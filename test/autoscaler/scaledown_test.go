// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// fourToThree waits for the autoscaler's scale-down, and checks that it is the only one.
func (f *fixture) fourToThree() {
	f.Helper()
	f.Eventually(f.seen.Replicas).ShouldNot(Equal([]int32{4}), "the autoscaler must remove a node")
	f.Consistently(f.seen.Replicas, quiet).Should(Equal([]int32{4, 3}), "the replicas must go down once, and stay there")
	f.settled(3)
	f.Expect(f.scaleRequests()).To(Equal(2), "scale requests: one by the test and one for the autoscaler")
	f.Expect(f.removed()).To(HaveLen(1), "the portal must remove one node")
}

// TestBlockedNodeIsWaitedFor checks an idle node beside the node that the portal removes first, whose Pod a PodDisruptionBudget protects.
// The provider may let the autoscaler lower the replicas and drain for as long as it takes, or keep the autoscaler from lowering them. In
// both cases the autoscaler must not lower the replicas a second time, neither while it waits nor when the Pod may be evicted.
func TestBlockedNodeIsWaitedFor(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	f := newFixture(t, box, 1, 3, 4)
	nodes := f.nodes()
	precious := newDeployment("precious", 1)
	f.place(precious, nodes[3])
	f.place(newDeployment("app", 2), nodes[1:3]...)
	budget := f.protect(precious)
	f.observe()
	f.autoscale()
	f.Consistently(f.seen.Replicas, quiet).Should(Or(Equal([]int32{4}), Equal([]int32{4, 3})), "the replicas may go down once at most")
	f.Expect(f.seen.Ended()).To(BeEmpty(), "Pods that ended")
	f.Expect(f.running("precious")).To(ConsistOf(nodes[3]))

	f.Expect(f.workload.Delete(f.Context(), budget)).To(Succeed())
	f.fourToThree()
	f.Expect(f.removed()).To(Equal(nodes[3:]), "the portal must remove the newest node")
	f.Eventually(func() []string { return f.running("precious") }).Should(ConsistOf(nodes[0]), "the Pod must move to the idle node")
	f.Expect(f.running("app")).To(ConsistOf(nodes[1:3]))
	f.Expect(f.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
}

// TestPodThatIsNotSafeToEvict checks a Pod that the autoscaler must not evict, on a node that the portal removes before an idle node.
func TestPodThatIsNotSafeToEvict(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	precious := func(f *fixture, on string) {
		deployment := newDeployment("precious", 1)
		deployment.Spec.Template.Annotations = map[string]string{safeToEvict: "false"}
		f.place(deployment, on)
	}
	t.Run("on the node that goes first", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, box, 1, 3, 4)
		nodes := f.nodes()
		precious(f, nodes[3])
		app := newDeployment("app", 2)
		f.place(app, nodes[1:3]...)
		f.observe()
		f.autoscale()
		f.Consistently(f.seen.Ended, quiet+quiet/2).Should(BeEmpty(), "Pods that ended")
		f.Expect(f.running("precious")).To(ConsistOf(nodes[3]))
		f.Expect(f.seen.Replicas()).To(Equal([]int32{4}), "no node can be removed without evicting the Pod")
		f.scalesUp(app)
	})
	t.Run("on the node that goes second", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, box, 1, 2, 3, 4)
		nodes := f.nodes()
		precious(f, nodes[2])
		f.place(newDeployment("app", 1), nodes[1])
		f.observe()
		f.autoscale()
		f.Eventually(f.seen.Replicas).ShouldNot(Equal([]int32{4}), "the newest node is idle and can be removed")
		f.Consistently(f.seen.Ended, quiet).Should(BeEmpty(), "Pods that ended")
		f.Expect(f.running("precious")).To(ConsistOf(nodes[2]))
		f.Expect(f.seen.Replicas()).To(Equal([]int32{4, 3}), "no second node can be removed without evicting the Pod")
		f.Expect(f.removed()).To(Equal(nodes[3:]))
		f.settled(3)
	})
}

// TestAnnotationOfTheUserStays checks that scale-down-disabled keeps the user's value on nodes while the autoscaler removes another node.
func TestAnnotationOfTheUserStays(t *testing.T) {
	needAutoscaler(t)
	t.Parallel()
	f := newFixture(t, box, 1, 3, 4)
	nodes := f.nodes()
	f.place(newDeployment("app", 3), nodes[:3]...)
	users := map[string]string{nodes[0]: "false", nodes[1]: "true"}
	for name, value := range users {
		suite.ChangeIn(f.Fixture, f.workload, node(name), func(n *corev1.Node) { metav1.SetMetaDataAnnotation(&n.ObjectMeta, disabledAnnotation, value) })
	}
	f.observe()
	f.autoscale()
	f.fourToThree()
	for name, value := range users {
		f.Expect(f.seen.Disabled(name)).To(Equal([]string{value}), "values on Node %s, where the user set it to %s", name, value)
	}
	f.Expect(f.seen.Ended()).To(BeEmpty(), "Pods that ended")
}
