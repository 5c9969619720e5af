// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Events of rows whose Cluster other rows use first.
const (
	olderBackup           = "restore from a backup that is older than the portal cluster"
	deletionAfterAdoption = "deletion of the Cluster after such a restore, which sets `Retain`"
)

// restores lose all objects of the namespace and restore them from a backup, while the portal cluster runs.
func restores() []row {
	return []row{
		{
			event:    "restore with stale owner references, children first",
			happens:  func(s *story) { b := s.backup(); s.lose(); s.restore(box.Client, b.backwards()) },
			clusters: 1, sees: []sight{notDeleting, provisioned},
		}, {
			event: "restore without owner references", before: olderBackup,
			happens:  func(s *story) { b := s.backup().withoutOwners(); s.lose(); s.restore(box.Client, b) },
			clusters: 1, sees: []sight{notDeleting, available},
			after: (*story).secretsHaveOwners,
		}, {
			event:    "restore with stale owner references, without status",
			happens:  func(s *story) { b := s.backup().withoutStatus(); s.lose(); s.restore(box.Client, b) },
			clusters: 1, sees: []sight{notDeleting, provisioned},
		}, {
			event: "restore by Velero: no owner references, no status, the Cluster last", before: olderBackup,
			happens:  func(s *story) { b := s.backup().asVelero(); s.lose(); s.restore(box.Client, b) },
			clusters: 1, sees: []sight{notDeleting, available},
			after: (*story).secretsHaveOwners,
		}, {
			event:    olderBackup,
			happens:  func(s *story) { b := s.backup(); s.lose(); s.restore(box.Client, b.withoutOwners().beforeCreation()) },
			clusters: 1,
			sees: []sight{
				{kind: "Cluster", condition: clusterv1.ClusterInfrastructureReadyCondition, status: metav1.ConditionTrue},
				{kind: "PortalControlPlane", condition: infrav1.ProvisionedCondition, status: metav1.ConditionFalse, reason: infrav1.RestoredObjectReason},
			},
			after: (*story).noOtherCluster,
		}, {
			event: "restore from the manifest with `spec.clusterID`", before: deletionAfterAdoption,
			happens:  (*story).adopt,
			clusters: 1, sees: []sight{notDeleting, available},
			after: func(s *story) {
				s.Get(s.controlPlane)
				s.Expect(s.controlPlane.Spec.DeletionPolicy).To(Equal(infrav1.DeletionPolicyRetain), "the deletion policy of an adopted cluster")
			},
		}, {
			event: deletionAfterAdoption,
			happens: func(s *story) {
				s.adopt()
				s.Eventually(func() bool { return isTrue(s, s.cluster, clusterv1.ClusterAvailableCondition) }).Should(BeTrue())
				s.delete(s.cluster)
			},
			clusters: 1, sees: []sight{{kind: "Cluster"}, {kind: "PortalControlPlane"}},
		},
	}
}

// beforeCreation returns the backup without the fields that the provider writes after the portal has accepted the creation of the cluster.
func (b backup) beforeCreation() backup {
	b = b.withoutStatus().only("Secret", "Cluster", "MachineDeployment", "PortalBootstrapConfigTemplate", "PortalCluster", "PortalControlPlane", "PortalMachineTemplate")
	return b.change(func(o *unstructured.Unstructured) {
		if o.GetKind() != "PortalControlPlane" {
			return
		}
		annotations := o.GetAnnotations()
		delete(annotations, infrav1.OperationAnnotation)
		delete(annotations, infrav1.RecordAnnotation)
		o.SetAnnotations(annotations)
		for _, field := range []string{"clusterID", "controlPlaneEndpoint"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
	})
}

// adopt loses all objects and applies the manifest again, with the id of the portal cluster.
func (s *story) adopt() {
	s.Helper()
	s.lose()
	s.compose()
	s.controlPlane.Spec.ClusterID = s.id
	for _, o := range s.objects() {
		s.Create(o)
	}
}

// noOtherCluster checks that the control plane names the existing portal cluster or none.
func (s *story) noOtherCluster() {
	s.Get(s.controlPlane)
	s.Expect(s.controlPlane.Spec.ClusterID).To(Or(BeEmpty(), Equal(s.id)))
}

// secretsHaveOwners waits until every kubeconfig Secret has an owner, so that no Secret with credentials outlives the Cluster.
func (s *story) secretsHaveOwners() {
	s.Eventually(func() (orphans []string) {
		all, err := list(s.Context(), box.Client, s.Namespace)
		s.Expect(err).NotTo(HaveOccurred())
		for _, o := range all.only("Secret") {
			if kind, _, _ := unstructured.NestedString(o.Object, "type"); kind == string(clusterv1.ClusterSecretType) && metav1.GetControllerOf(o) == nil {
				orphans = append(orphans, o.GetName())
			}
		}
		return orphans
	}).Should(BeEmpty(), "Secrets without an owner")
}
