// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// scaledPool creates a MachinePool without nodes that the autoscaler may scale, beside a MachineDeployment that it may not. The annotations
// describe a node to the autoscaler, which cannot look it up otherwise.
func (f *fixture) scaledPool() *clusterv1.MachinePool {
	f.Helper()
	suite.Change(f.Fixture, f.deployment(), func(md *clusterv1.MachineDeployment) { md.Annotations = nil })
	md, template := f.deployment(), &infrav1.PortalMachineTemplate{}
	f.Get(md)
	key := client.ObjectKey{Namespace: md.Namespace, Name: md.Spec.Template.Spec.InfrastructureRef.Name}
	f.Expect(f.Box.Client.Get(f.Context(), key, template)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: f.Namespace, Name: "pool"}
	pool, infra := suite.NewPool(meta, name, md.Spec.Template.Spec.Version, 0, template.Spec.Template.Spec)
	f.Create(infra)
	pool.Annotations = map[string]string{
		minSizeAnnotation: "0", maxSizeAnnotation: "4",
		"capacity.cluster-autoscaler.kubernetes.io/cpu": "4", "capacity.cluster-autoscaler.kubernetes.io/memory": "16Gi",
	}
	f.Create(pool)
	return pool
}

// TestPool checks that a pool scales up from zero for Pods without a node. Then the autoscaler finds a node of the pool that is hardly
// used. Unless the user says that it can remove such nodes, it must leave the replicas and the Pods alone. With the annotation, it removes
// one node after the other, each of them the one that the portal removes.
func TestPool(t *testing.T) {
	f := newFixture(t, 1, 1)
	pool := f.scaledPool()
	replicas := func() int32 {
		f.Get(pool)
		return *pool.Spec.Replicas
	}
	nodesOfPool := func() int {
		f.Get(pool)
		return len(pool.Status.NodeRefs)
	}
	f.observe()
	app := newDeployment("app", 1)
	f.Expect(f.workload.Create(f.Context(), app)).To(Succeed())
	f.autoscale()
	for pods := 2; pods <= 3; pods++ { // one after the other, so that the portal has an order
		suite.ChangeIn(f.Fixture, f.workload, app, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To(int32(pods)) })
		f.Eventually(func() []string { return f.running("app") }).Should(HaveLen(pods))
		f.Expect(replicas()).To(Equal(int32(pods-1)), "the pool must have one node for each Pod")
		f.Eventually(nodesOfPool).Should(Equal(pods - 1))
	}

	nodes := f.nodes()
	f.Expect(f.workload.Delete(f.Context(), app)).To(Succeed())
	f.Eventually(func() []corev1.Pod { return f.pods("app") }).Should(BeEmpty())
	f.seen.forget()
	small := newDeployment("small", 1)
	small.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("100m")
	f.place(small, nodes[len(nodes)-1])
	f.Consistently(replicas, quiet).Should(Equal(int32(2)), "the autoscaler must not scale down a pool")
	f.Expect(f.seen.Ended()).To(BeEmpty(), "Pods that ended")

	suite.Change(f.Fixture, pool, func(mp *clusterv1.MachinePool) {
		mp.Annotations[infrav1.AutoscalerRemovesNodesAnnotation] = "true"
	})
	f.Eventually(replicas).Should(BeZero(), "the autoscaler must remove the nodes of the pool, which are hardly used")
	f.Eventually(f.nodes).Should(Equal(nodes[:1]))
	f.Eventually(f.removed).Should(Equal([]string{nodes[2], nodes[1]}), "the portal must remove the newest node first")
	f.Eventually(func() []string { return f.running("small") }).Should(ConsistOf(nodes[0]), "the Pod must move")
	f.Expect(f.seen.Killed()).To(BeEmpty(), "Pods that were not evicted")
}
