// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"maps"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// deletions delete one object of a Cluster, and the namespace with all of them.
func deletions() []row {
	return []row{
		{
			event: "`kubectl delete namespace`", happens: (*story).deleteNamespace, sees: []sight{{kind: "Cluster"}, {kind: "PortalControlPlane"}, {kind: "PortalCluster"}},
			// Kubernetes deletes one kind after the other. On a busy machine, the MachineDeployment goes seconds before the Cluster.
			may: scaleRequest,
		}, {
			event: "`kubectl delete portalbootstrapconfig`", sees: []sight{available},
			happens: func(s *story) { s.delete(s.backup().only("PortalBootstrapConfig")[0]) },
		}, {
			event: "`kubectl delete namespace` of a protected Cluster",
			with: func(s *story) {
				protected := map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
				s.Cluster.Annotations, s.ControlPlane.Annotations = protected, maps.Clone(protected)
			},
			happens: func(s *story) {
				s.deleteNamespace()
				s.Eventually(func() bool { return s.read(s.Deployment).GetDeletionTimestamp().IsZero() }).Should(BeFalse())
			},
			sees: []sight{deleting},
		},
	}
}

func (s *story) deleteNamespace() {
	s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
}
