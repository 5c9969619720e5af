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

// Events of rows whose Cluster other rows use first.
const (
	deletedCluster       = "`kubectl delete cluster`"
	deletedControlPlane  = "`kubectl delete portalcontrolplane`"
	deletedPortalCluster = "`kubectl delete portalcluster`"
	deletedDeployment    = "`kubectl delete machinedeployment` of the only one. The provider removes workers until it is gone"
	deletedPortalMachine = "`kubectl delete portalmachine`"
	deletedTemplate      = "`kubectl delete portalmachinetemplate`"
	deletedIdentity      = "`kubectl delete secret` of the identity"
	deletedNamespace     = "`kubectl delete namespace`"
)

// deletions delete one object of a Cluster, and the namespace with all of them.
func deletions() []row {
	return []row{
		{
			event: deletedCluster, happens: func(s *story) { s.delete(s.cluster) },
			asked: []string{deleteRequest}, sees: []sight{{kind: "Cluster"}, {kind: "PortalControlPlane"}},
		}, {
			event: deletedControlPlane, happens: func(s *story) { s.delete(s.controlPlane) },
			asked: []string{deleteRequest},
			sees:  []sight{{kind: "PortalControlPlane"}, {kind: "Cluster", condition: clusterv1.ClusterAvailableCondition, status: metav1.ConditionFalse}},
		}, {
			event: deletedPortalCluster, happens: func(s *story) { s.delete(s.portalCluster) }, clusters: 1,
			sees: []sight{{kind: "PortalCluster", condition: clusterv1.DeletingCondition, status: metav1.ConditionTrue}, provisioned},
		}, {
			event: deletedDeployment, happens: func(s *story) { s.delete(s.deployment) }, clusters: 1,
			asked: []string{scaleRequest}, sees: []sight{{kind: "MachineDeployment"}, provisioned},
		}, {
			event: "`kubectl delete machineset`", before: deletedCluster, happens: func(s *story) { s.deleteOne("MachineSet") }, clusters: 1,
			sees: []sight{available}, after: func(s *story) { s.settled(box) },
		}, {
			event: "`kubectl delete machine`", before: deletedControlPlane, happens: func(s *story) { s.deleteOne("Machine") }, clusters: 1,
			sees: []sight{available}, after: func(s *story) { s.settled(box) },
		}, {
			event: deletedPortalMachine, happens: func(s *story) { s.deleteOne("PortalMachine") }, clusters: 1,
			sees: []sight{provisioned},
		}, {
			event: deletedTemplate, happens: func(s *story) { s.delete(s.template) }, clusters: 1,
			sees: []sight{available}, after: func(s *story) { s.settled(box) },
		}, {
			event: "`kubectl delete portalbootstrapconfig`", happens: func(s *story) { s.deleteOne("PortalBootstrapConfig") }, clusters: 1,
			sees: []sight{available},
		}, {
			event: "`kubectl delete secret` of the kubeconfig", before: deletedPortalCluster, happens: (*story).deleteKubeconfig, clusters: 1,
			sees: []sight{available}, after: (*story).secretsHaveOwners,
		}, {
			event: deletedIdentity, happens: func(s *story) { s.delete(s.secret) }, clusters: 1,
			sees:  []sight{available, {kind: "PortalCluster", condition: infrav1.IdentityReadyCondition, status: metav1.ConditionTrue}},
			after: func(s *story) { s.Get(s.secret) },
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

// deleteKubeconfig deletes the kubeconfig Secret, and waits until the provider has created it again.
func (s *story) deleteKubeconfig() {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name + "-kubeconfig"}}
	s.Get(secret)
	before := secret.UID
	s.delete(secret)
	s.Eventually(func() bool {
		all, err := list(s.Context(), box.Client, s.Namespace)
		s.Expect(err).NotTo(HaveOccurred())
		for _, o := range all.only("Secret") {
			if o.GetName() == secret.Name && o.GetUID() != before {
				return true
			}
		}
		return false
	}).Should(BeTrue(), "the provider fetches the kubeconfig again")
}
