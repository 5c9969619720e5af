// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
)

type spec struct {
	name string
	run  func(*testing.T)
}

// alone are the specs that run one at a time, in this order. The quick start is timed from clusterctl init on. The others kill or replace
// the manager.
var alone = []spec{
	{"quick start", quickStart},
	{"manager killed inside the call that creates", killedInsideTheCall},
	{"previous release upgraded by clusterctl", providerUpgraded},
}

// together are the specs that run concurrently, longest first.
var together = []spec{
	{"move to another management cluster and back", moveThereAndBack},
	{"ClusterClass: create, scale and upgrade", clusterClass},
}

func TestSpecs(t *testing.T) {
	for _, s := range alone {
		t.Run(s.name, s.run)
	}
	t.Run("together", func(t *testing.T) {
		for _, s := range together {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t)
			})
		}
	})
	if !t.Failed() {
		t.Run("in the end", inTheEnd)
	}
}

// inTheEnd checks what a single spec cannot see.
func inTheEnd(t *testing.T) {
	g := NewWithT(t)
	clusters, err := env.portal.clusters(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(clusters).To(BeEmpty(), "clusters at the portal")
	entries, err := env.portal.requestLog(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		// After a creation with an unknown result, the provider asks the portal once for a list of clusters, in case it supports that.
		if entry.Method != http.MethodGet || entry.Path != createRoute {
			g.Expect(entry.Violation).To(BeEmpty(), "violation of the portal's specification: %s", entry)
		}
	}
	for _, m := range env.managements() {
		pods, err := m.pods(t.Context(), providerNamespace, portalNamespace)
		g.Expect(err).NotTo(HaveOccurred())
		for _, pod := range pods {
			for _, container := range pod.Status.ContainerStatuses {
				g.Expect(container.RestartCount).To(BeZero(), "restarts of %s in Pod %s/%s", container.Name, pod.Namespace, pod.Name)
			}
		}
	}
}
