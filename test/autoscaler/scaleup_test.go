// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// scalesUp adds two Pods to a Cluster with at most one idle node, and waits until both run. Tests in which the autoscaler had good reasons
// to do nothing end with it, to show that the autoscaler was able to act.
func (f *fixture) scalesUp(deployment *appsv1.Deployment) {
	f.Helper()
	pods, nodes := len(f.running(deployment.Name)), len(f.nodes())
	suite.ChangeIn(f.Fixture, f.workload, deployment, func(d *appsv1.Deployment) { *d.Spec.Replicas += 2 })
	f.Eventually(func() []string { return f.running(deployment.Name) }).Should(HaveLen(pods + 2))
	f.Expect(len(f.nodes())).To(BeNumerically(">", nodes), "the autoscaler must add a node for a Pod that has none")
}

// TestPendingPods checks that the autoscaler scales up for Pods that have no node, down to zero after the Pods are deleted, and up again
// from zero by the template's description of a node.
func TestPendingPods(t *testing.T) {
	f := newFixture(t, 0, 1)
	f.observe()
	app := newDeployment("app", 3)
	f.Expect(f.workload.Create(f.Context(), app)).To(Succeed())
	f.autoscale()
	f.Eventually(func() []string { return f.running("app") }).Should(HaveLen(3))
	f.Consistently(f.seen.Replicas, quiet/2).Should(Equal([]int32{1, 3}), "the Cluster must have one node for each Pod")
	f.Expect(f.seen.Ended()).To(BeEmpty(), "Pods that ended")

	f.Expect(f.workload.Delete(f.Context(), app)).To(Succeed())
	f.Eventually(f.nodes).Should(BeEmpty(), "no Pod is left, so no node is needed")
	f.settled(0)
	f.seen.forget()

	again := newDeployment("again", 1)
	f.Expect(f.workload.Create(f.Context(), again)).To(Succeed())
	f.Eventually(func() []string { return f.running("again") }).Should(HaveLen(1))
	f.Consistently(f.seen.Ended, quiet/2).Should(BeEmpty(), "Pods that ended")
	f.settled(1)
}
