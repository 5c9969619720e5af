// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestLife creates, scales, upgrades and deletes a Cluster with the rollout settings of the flavor. The provider must ask the
// portal only for the changes that the user makes.
func TestLife(t *testing.T) {
	t.Parallel()
	lives := map[string][]int32{
		"one MachineDeployment":    {2},
		"three MachineDeployments": {2, 1, 1},
	}
	for title, replicas := range lives {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, replicas...)
			w.apply()
			workers := 0
			for _, n := range replicas {
				workers += int(n)
			}
			w.settled(workers)
			w.Expect(w.asked()).To(Equal([]string{createRequest}), "the first size is the sum")
			w.described()
			w.steady()

			w.scale(0, replicas[0]+1)
			w.settled(workers + 1)
			w.scale(0, replicas[0])
			w.settled(workers)
			w.Expect(w.asked()).To(Equal([]string{createRequest, scaleRequest, scaleRequest}))

			nodes := w.nodes()
			w.upgrade(newer)
			w.settled(workers)
			w.Expect(w.nodes()).To(Equal(nodes), "all nodes stay: the portal upgrades them in place")
			w.Expect(w.asked()).To(Equal([]string{createRequest, scaleRequest, scaleRequest, upgradeRequest}))
			w.steady()

			w.Expect(box.Client.Delete(t.Context(), w.cluster)).To(Succeed())
			w.gone()
			w.neverFailed()
		})
	}
}

func (w *world) upgrade(version string) {
	w.Helper()
	change(w, w.cluster, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = version })
}

// described checks that clusterctl describe shows all objects of the Cluster.
func (w *world) described() {
	w.Helper()
	tree := w.clusterctl("describe", "cluster", name, "--grouping=false", "--show-templates", "--echo")
	for _, line := range []string{
		`Cluster ` + w.namespace + `/demo, v1\.34\.9 .*True +Available`,
		`PortalCluster ` + w.namespace + `/demo .*True +Ready`,
		`PortalControlPlane ` + w.namespace + `/demo, v1\.34\.9 +1/1 .*True +Available`,
		`MachineDeployment ` + w.namespace + `/demo-workers-0-\w+, v1\.34\.9 .*True +Available`,
		`PortalMachineTemplate ` + w.namespace + `/demo-workers-0-\w+`,
		`PortalBootstrapConfigTemplate ` + w.namespace + `/demo-workers-0-\w+`,
		`PortalBootstrapConfig ` + w.namespace + `/\S+ .*True +NothingToBootstrap`,
		`PortalMachine ` + w.namespace + `/\S+ .*True +Bound`,
	} {
		w.Expect(tree).To(MatchRegexp(line))
	}
}

// gone waits until only the templates of the ClusterClass and the identity Secret are left, and checks that the account has no
// portal cluster.
func (w *world) gone() {
	w.Helper()
	lists := []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{}, &infrav1.PortalBootstrapConfigList{},
		&infrav1.PortalMachineTemplateList{}, &infrav1.PortalBootstrapConfigTemplateList{}, &corev1.SecretList{},
	}
	kept := []string{"portal-default-worker", "portal-identity"}
	w.Eventually(func() (left []string) {
		for _, list := range lists {
			w.list(list)
			items, err := meta.ExtractList(list)
			w.Expect(err).NotTo(HaveOccurred())
			for _, item := range items {
				o, _ := item.(client.Object)
				if !slices.Contains(kept, o.GetName()) {
					left = append(left, fmt.Sprintf("%T %s", o, o.GetName()))
				}
			}
		}
		return left
	}).Should(BeEmpty())
	w.Expect(slices.ContainsFunc(box.Portal.Clusters(), func(c emulator.Cluster) bool { return c.Account == w.account })).To(BeFalse())
}
