// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// clusterClass checks the flavor topology: it creates its ClusterClass, and users change only the Cluster. An upgrade replaces no node
// beyond those of the portal's own upgrade.
func clusterClass(t *testing.T) {
	s := prepareSubject(t)
	manifest := s.generate("topology", 1)
	s.apply(manifest)
	s.settled(1)
	s.Expect(s.topology()).To(HavePrefix("True"))

	change(s, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
		c.Spec.Topology.Workers.MachineDeployments[0].Replicas = ptr.To[int32](2)
	})
	s.settled(2)
	nodes := s.holders()

	change(s, &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Topology.Version = newerVersion })
	s.Eventually(func() (string, error) { return s.notAt(s.Context(), newerVersion) }).Should(BeEmpty())
	s.Eventually(s.topology).Should(HavePrefix("True"))
	s.Eventually(func() string { return s.deployment().Spec.Template.Spec.Version }).Should(Equal(newerVersion), "version of the MachineDeployment")
	s.replaced(nodes, 2)
	s.settled(2)
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Scaling size 1 → 2", "Upgrading " + olderVersion + " → " + newerVersion}))
	s.delete()
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.at.Get(s.Context(), s.key(), &clusterv1.Cluster{}))
	}).Should(BeTrue(), "the Cluster must be gone")
	s.deleteManifest(manifest) // the ClusterClass and its templates
	s.gone()
}

// topology returns the Cluster's condition TopologyReconciled, as "Status Reason: message".
func (s *subject) topology() string {
	return s.condition(s.Context(), &clusterv1.Cluster{}, clusterv1.ClusterTopologyReconciledCondition)
}
