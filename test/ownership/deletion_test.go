// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"maps"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// deletedNamespace is the event of a row whose Cluster other rows use first.
const deletedNamespace = "`kubectl delete namespace`"

// deletions delete one object of a Cluster, and the namespace with all of them.
func deletions() []row {
	return []row{
		{
			event: "`kubectl delete portalbootstrapconfig`", happens: func(s *story) { s.deleteOne("PortalBootstrapConfig") }, clusters: 1,
			sees: []sight{available},
		}, {
			event: deletedNamespace,
			happens: func(s *story) {
				s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
			},
			asked: []string{deleteRequest}, sees: []sight{{kind: "Cluster"}, {kind: "PortalControlPlane"}, {kind: "PortalCluster"}},
			// Kubernetes deletes one kind after the other. On a busy machine, the MachineDeployment goes seconds before the Cluster.
			early: []string{scaleRequest},
		}, {
			event: "`kubectl delete namespace` of a protected Cluster",
			with: func(s *story) {
				protected := map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
				s.cluster.Annotations, s.controlPlane.Annotations = protected, maps.Clone(protected)
			},
			happens: func(s *story) {
				s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
				s.Eventually(func() bool { s.Get(s.deployment); return !s.deployment.DeletionTimestamp.IsZero() }).Should(BeTrue())
			},
			clusters: 1, sees: []sight{notDeleting},
		},
	}
}

// deleteOne deletes one object of the kind.
func (s *story) deleteOne(kind string) {
	s.Helper()
	all, err := list(s.Context(), box.Client, s.Namespace)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(all.only(kind)).NotTo(BeEmpty())
	s.delete(all.only(kind)[0])
}
