// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestLife creates, scales, upgrades and deletes a Cluster with three MachineDeployments and the rollout settings of the flavor. The provider
// must ask the portal only for the changes that the user makes.
func TestLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 2, 1, 1)
	f.apply()
	f.settled(4)
	f.Expect(f.Changes()).To(Equal([]string{createRequest}), "the first size is the sum")
	f.described()
	f.setOrder()
	f.steady()
	cp := f.controlPlane()
	f.Get(cp)
	f.Expect(cp.Spec.DeletionPolicy).To(Equal(infrav1.DeletionPolicyDelete), "core keeps what a user has set")

	f.scale(0, 3)
	f.settled(5)
	f.scale(0, 2)
	f.settled(4)
	f.Expect(f.Changes()).To(Equal([]string{createRequest, scaleRequest, scaleRequest}))

	nodes := f.nodes()
	f.upgrade(newer)
	f.settled(4)
	f.Expect(f.nodes()).To(Equal(nodes), "all nodes stay: the portal upgrades them in place")
	f.Expect(f.Changes()).To(Equal([]string{createRequest, scaleRequest, scaleRequest, upgradeRequest}))
	f.steady()

	f.Expect(box.Client.Delete(t.Context(), f.cluster)).To(Succeed())
	f.gone()
	f.neverFailed()
}

func (f *fixture) upgrade(version string) {
	f.Helper()
	suite.Change(f.Fixture, f.cluster, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = version })
}

// setOrder sets the order of removal in the Cluster, and another field in the PortalControlPlane, and waits for both.
func (f *fixture) setOrder() {
	f.Helper()
	cp := f.controlPlane()
	suite.Change(f.Fixture, cp, func(c *infrav1.PortalControlPlane) { c.Spec.DeletionPolicy = infrav1.DeletionPolicyDelete })
	suite.Change(f.Fixture, f.cluster, func(c *clusterv1.Cluster) {
		variables := &c.Spec.Topology.Variables
		*variables = append(*variables, clusterv1.ClusterVariable{Name: "removalOrder", Value: apiextensionsv1.JSON{Raw: []byte(`"Newest"`)}})
	})
	f.Eventually(func() infrav1.RemovalOrderStatus {
		f.Get(cp)
		return cp.Status.RemovalOrder
	}).Should(Equal(infrav1.RemovalOrderStatus{
		Order: infrav1.RemovalOrderNewest, Source: infrav1.RemovalOrderSet,
	}))
}

// described checks that clusterctl describe shows all objects of the Cluster.
func (f *fixture) described() {
	f.Helper()
	tree := f.clusterctl("describe", "cluster", name, "--grouping=false", "--show-templates", "--echo")
	for _, line := range []string{
		`Cluster ` + f.Namespace + `/demo, v1\.34\.9 .*True +Available`,
		`PortalCluster ` + f.Namespace + `/demo .*True +Ready`,
		`PortalControlPlane ` + f.Namespace + `/demo, v1\.34\.9 +1/1 .*True +Ready`,
		`MachineDeployment ` + f.Namespace + `/demo-workers-0-\w+, v1\.34\.9 .*True +Available`,
		`PortalMachineTemplate ` + f.Namespace + `/demo-workers-0-\w+`,
		`PortalBootstrapConfigTemplate ` + f.Namespace + `/demo-workers-0-\w+`,
		`PortalBootstrapConfig ` + f.Namespace + `/\S+ .*True +Ready`,
		`PortalMachine ` + f.Namespace + `/\S+ .*True +Ready`,
	} {
		f.Expect(tree).To(MatchRegexp(line))
	}
}

// gone waits until only the templates of the ClusterClass and the identity Secret are left, and checks that the account has no
// portal cluster.
func (f *fixture) gone() {
	f.Helper()
	lists := []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{}, &infrav1.PortalBootstrapConfigList{},
		&infrav1.PortalMachineTemplateList{}, &infrav1.PortalBootstrapConfigTemplateList{}, &corev1.SecretList{},
	}
	f.Eventually(func() []string {
		return slices.DeleteFunc(f.Left(lists...), func(left string) bool {
			return strings.HasSuffix(left, " portal-default-worker") || strings.HasSuffix(left, " portal-identity")
		})
	}).Should(BeEmpty())
	f.Expect(f.PortalClusters()).To(BeEmpty())
}
