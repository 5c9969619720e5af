// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"maps"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

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
			event:   "`kubectl delete portalbootstrapconfig` of a Machine, for which core then waits. A person creates it again",
			happens: (*story).replaceBootstrapConfig, sees: []sight{available},
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

// replaceBootstrapConfig deletes the PortalBootstrapConfig of a Machine. With a new one, the Machine and its Node remain.
func (s *story) replaceBootstrapConfig() {
	s.Helper()
	configs := s.backup().only("PortalBootstrapConfig")
	s.delete(configs[0])
	s.Eventually(s.Condition(s.Cluster, clusterv1.ClusterAvailableCondition)).Should(HavePrefix("False"))
	s.Create(&infrav1.PortalBootstrapConfig{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: configs[0].GetName()}})
}

func (s *story) deleteNamespace() {
	s.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}})
}
