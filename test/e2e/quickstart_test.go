// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// quickly is the maximum time from clusterctl init to a running cluster when all images are loaded.
const quickly = 3 * time.Minute

// quickStart follows the getting started page, and then looks into the new cluster with the user's kubeconfig.
func quickStart(t *testing.T) {
	s := prepareSubject(t)
	s.create(3)
	took := time.Since(env.initialized)
	t.Logf("from clusterctl init to a running cluster with 3 workers: %.1f s", took.Seconds())
	s.Expect(took).To(BeNumerically("<", quickly))
	cluster := &clusterv1.Cluster{}
	s.Expect(s.at.Get(s.Context(), s.key(), cluster)).To(Succeed())
	s.Expect(cluster.Status.Phase).To(Equal(string(clusterv1.ClusterPhaseProvisioned)))

	kubeconfig, err := env.clusterctl.run(s.Context(), s.at, nil, "get", "kubeconfig", s.name, "--namespace", s.namespace)
	s.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "kubeconfig")
	s.Expect(os.WriteFile(file, []byte(kubeconfig), 0o600)).To(Succeed())
	workload, err := connect("", file)
	s.Expect(err).NotTo(HaveOccurred())
	nodes := &corev1.NodeList{}
	s.Expect(workload.List(s.Context(), nodes)).To(Succeed())
	s.Expect(nodes.Items).To(HaveLen(4), "Nodes: a control node and three workers")
	for _, node := range nodes.Items {
		s.Expect(node.Status.NodeInfo.KubeletVersion).To(Equal(olderVersion))
	}
	controlPlane := &infrav1.PortalControlPlane{}
	s.Expect(s.at.Get(s.Context(), s.key(), controlPlane)).To(Succeed())
	s.Expect(controlPlane.Status.Version).To(Equal(olderVersion))
	s.remove()
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Deleting"}))
}
