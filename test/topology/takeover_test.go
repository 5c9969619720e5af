// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestTakeover makes a Cluster again whose portal cluster was kept, as docs/restore.md describes for a ClusterClass: the control plane is
// paused until it has the id. The provider takes the portal cluster over with its nodes, and creates none. Core keeps the id.
func TestTakeover(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2)
	f.apply()
	f.settled(2)
	nodes := f.nodes()
	f.Get(f.cluster)
	cp := f.controlPlane()
	f.Get(cp)
	id := cp.Spec.ClusterID
	suite.Change(f.Fixture, cp, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	f.Expect(box.Client.Delete(t.Context(), f.cluster)).To(Succeed())
	f.Eventually(f.Gone(f.cluster)).Should(BeTrue())

	again := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.cluster.Name, Labels: f.cluster.Labels, Annotations: f.cluster.Annotations},
		Spec:       clusterv1.ClusterSpec{Topology: f.cluster.Spec.Topology, ClusterNetwork: f.cluster.Spec.ClusterNetwork},
	}
	again.Spec.Topology.ControlPlane.Metadata.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	f.cluster = again
	f.Expect(box.Client.Create(t.Context(), again)).To(Succeed())
	made := f.controlPlane()
	f.Eventually(f.Condition(made, clusterv1.PausedCondition)).Should(HavePrefix("True"))
	f.Consistently(f.Changes, 10*time.Second).Should(Equal([]string{createRequest}), "the pause leaves time to set the id")
	suite.Change(f.Fixture, made, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
	suite.Change(f.Fixture, f.cluster, func(c *clusterv1.Cluster) { c.Spec.Topology.ControlPlane.Metadata.Annotations = nil })

	f.settled(2)
	f.Get(made)
	f.Expect(made.Spec.ClusterID).To(Equal(id))
	f.Expect(f.nodes()).To(Equal(nodes))
	f.steady()
	f.scale(0, 3)
	f.settled(3)
	f.Expect(f.Changes()).To(Equal([]string{createRequest, scaleRequest}))
	f.neverFailed()
}
