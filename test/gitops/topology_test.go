// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTopology applies a Cluster with a ClusterClass. Core's topology controller creates the other objects, with its own field manager.
func TestTopology(t *testing.T) {
	eachTool(t, argoCD, flux, func(t *testing.T, a applier) {
		f := newFixture(t, a, "clusterclass-portal.yaml", "cluster-template-topology.yaml")
		f.watch()
		f.sync()
		f.arrived(older, 1)
		f.idle()
		f.commit(func(m *manifests) {
			workers, _, err := unstructured.NestedSlice(m.of("Cluster").Object, "spec", "topology", "workers", "machineDeployments")
			m.Expect(err).NotTo(HaveOccurred())
			workers[0].(map[string]any)["replicas"] = int64(2) // the API has a list of objects here
			m.set("Cluster", workers, "spec", "topology", "workers", "machineDeployments")
		})
		f.arrived(older, 2)
		f.commit(func(m *manifests) { m.set("Cluster", newer, "spec", "topology", "version") })
		f.arrived(newer, 2)
		f.idle()
		f.fieldsAreOwned("PortalBootstrapConfig", "PortalClusterTemplate", "PortalControlPlaneTemplate", "PortalBootstrapConfigTemplate")
		f.prune()
	})
}
