// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"

	. "github.com/onsi/gomega"
)

// TestBlockedNodeIsWaitedFor checks an idle node beside the node that the portal removes first, whose Pod a PodDisruptionBudget protects.
// The provider may let the autoscaler lower the replicas and drain for as long as it takes, or keep the autoscaler from lowering them. In
// both cases the autoscaler must not lower the replicas a second time, neither while it waits nor when the Pod may be evicted.
func TestBlockedNodeIsWaitedFor(t *testing.T) {
	f := newFixture(t, 1, 3, 4)
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
	f.Eventually(f.seen.Replicas).ShouldNot(Equal([]int32{4}), "the autoscaler must remove a node")
	f.Consistently(f.seen.Replicas, quiet).Should(Equal([]int32{4, 3}), "the replicas must go down once, and stay there")
	f.settled(3)
	f.Expect(f.scaleRequests()).To(Equal(2), "scale requests: one by the test and one for the autoscaler")
	f.Expect(f.removed()).To(Equal(nodes[3:]), "the portal must remove the newest node")
	f.Eventually(func() []string { return f.running("precious") }).Should(ConsistOf(nodes[0]), "the Pod must move to the idle node")
	f.Expect(f.running("app")).To(ConsistOf(nodes[1:3]))
	f.Expect(f.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
}

// TestPodThatIsNotSafeToEvict checks a Pod that the autoscaler must not evict. The autoscaler removes the idle node that the portal removes
// first. Then it must leave the other idle node alone, because the node of the Pod is the next one that the portal would remove.
func TestPodThatIsNotSafeToEvict(t *testing.T) {
	f := newFixture(t, 1, 2, 3, 4)
	nodes := f.nodes()
	precious := newDeployment("precious", 1)
	precious.Spec.Template.Annotations = map[string]string{safeToEvict: "false"}
	f.place(precious, nodes[2])
	f.place(newDeployment("app", 1), nodes[1])
	f.observe()
	f.autoscale()
	f.Eventually(f.seen.Replicas).ShouldNot(Equal([]int32{4}), "the newest node is idle and can be removed")
	f.Consistently(f.seen.Ended, quiet+quiet/2).Should(BeEmpty(), "Pods that ended")
	f.Expect(f.running("precious")).To(ConsistOf(nodes[2]))
	f.Expect(f.seen.Replicas()).To(Equal([]int32{4, 3}), "no second node can be removed without evicting the Pod")
	f.Expect(f.removed()).To(Equal(nodes[3:]))
	f.settled(3)
}
