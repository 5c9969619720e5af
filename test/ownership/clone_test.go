// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

const clone = "clone"

// clones copy the manifests of a running Cluster, as `kubectl get -o yaml` shows them, and give them another name or namespace. The clone
// asks for another number of workers.
func clones() []row {
	refused := func(namespace, name string) []sight {
		return []sight{
			{kind: "PortalControlPlane", namespace: namespace, name: name, condition: infrav1.ProvisionedCondition, status: metav1.ConditionFalse}, available,
		}
	}
	return []row{
		{
			event: "clone in the same namespace, annotations included", before: deletedIdentity,
			happens:  func(s *story) { s.clone("", clone) },
			clusters: 1, sees: refused("", clone), after: func(s *story) { s.removeClone("", clone) },
		}, {
			event: "clone into another namespace, annotations included", before: deletedTemplate,
			happens:  func(s *story) { s.clone(other, name) },
			clusters: 1, sees: refused(other, ""), after: func(s *story) { s.removeClone(other, name) },
		},
	}
}

// clone creates a copy of the objects that a user's manifest has.
func (s *story) clone(namespace, newName string) {
	s.Helper()
	if namespace != "" {
		s.createNamespace(box, s.Namespace+namespace)
		secret := s.IdentitySecret(identity)
		secret.Namespace += namespace
		s.Create(secret)
	}
	manifest := s.backup().withoutOwners().withoutStatus().
		only("Cluster", "MachineDeployment", "PortalBootstrapConfigTemplate", "PortalCluster", "PortalControlPlane", "PortalMachineTemplate")
	for _, o := range manifest {
		o = s.renamed(o, newName)
		o.SetNamespace(s.Namespace + namespace)
		o.SetFinalizers(nil)
		if o.GetKind() == "MachineDeployment" {
			s.Expect(unstructured.SetNestedField(o.Object, int64(3), "spec", "replicas")).To(Succeed())
		}
		s.Expect(box.Client.Create(s.Context(), o)).To(Succeed(), o.GetKind())
	}
}

// renamed returns the object with the Cluster's name replaced wherever it is a whole value: in names, labels, selectors and references.
func (s *story) renamed(o *unstructured.Unstructured, newName string) *unstructured.Unstructured {
	s.Helper()
	text, err := json.Marshal(o.Object)
	s.Expect(err).NotTo(HaveOccurred())
	renamed := &unstructured.Unstructured{}
	s.Expect(json.Unmarshal([]byte(strings.ReplaceAll(string(text), `:"`+name+`"`, `:"`+newName+`"`)), &renamed.Object)).To(Succeed())
	return renamed
}

// removeClone deletes the clone, and waits until it is gone.
func (s *story) removeClone(namespace, name string) {
	s.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace + namespace, Name: name}}
	s.delete(cluster)
	gone := sight{kind: "Cluster", namespace: namespace, name: name}
	s.Eventually(func() metav1.ConditionStatus { _, status, _ := gone.look(s); return status }).Should(BeEmpty(), "the clone is gone")
}
