// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestManagerOutside checks that the manager of config/namespaced has no rights outside its namespace, no right to update or delete Secrets, and
// no right to delete its Lease or to read others. It may write events about its namespace, which Kubernetes keeps in default, and about its lease.
func TestManagerOutside(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	manager := as(t, managerAccount)
	lease := metav1.ObjectMeta{Namespace: "capportal-system", Name: "controller-leader-election-capportal"}
	for title, try := range map[string]error{
		"list Secrets of all namespaces":       manager.List(t.Context(), &corev1.SecretList{}),
		"list Secrets elsewhere":               manager.List(t.Context(), &corev1.SecretList{}, client.InNamespace("default")),
		"read a Secret elsewhere":              manager.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "any"}, &corev1.Secret{}),
		"create a kubeconfig elsewhere":        manager.Create(t.Context(), elsewhere(newSecret("prod-kubeconfig", clusterv1.ClusterSecretType, "prod", value("k")))),
		"list PortalControlPlanes elsewhere":   manager.List(t.Context(), &infrav1.PortalControlPlaneList{}, client.InNamespace("default")),
		"list Machines of all namespaces":      manager.List(t.Context(), &clusterv1.MachineList{}),
		"update a Secret in its namespace":     manager.Update(t.Context(), newSecret("x-kubeconfig", clusterv1.ClusterSecretType, "x", value("k"))),
		"delete a Secret in its namespace":     manager.Delete(t.Context(), newSecret("x-kubeconfig", clusterv1.ClusterSecretType, "x", nil)),
		"read a Namespace that is not its own": manager.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}),
		"delete its Lease":                     manager.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: lease}),
		"read another Lease":                   manager.Get(t.Context(), client.ObjectKey{Namespace: lease.Namespace, Name: "other"}, &coordinationv1.Lease{}),
	} {
		g.Expect(apierrors.IsForbidden(try)).To(BeTrue(), "%s: %v", title, try)
	}
	g.Expect(manager.List(t.Context(), &corev1.SecretList{}, client.InNamespace(watched))).To(Succeed())
	for namespace, about := range map[string]corev1.ObjectReference{
		"default":       {APIVersion: "v1", Kind: "Namespace", Name: watched},
		lease.Namespace: {APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: lease.Namespace, Name: lease.Name},
	} {
		g.Expect(manager.Create(t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "contract-"}, EventTime: metav1.NowMicro(), Regarding: about,
			ReportingController: "contract", ReportingInstance: "contract", Action: "Test", Reason: "Test", Type: corev1.EventTypeNormal,
		})).To(Succeed(), "an event in %s", namespace)
	}
}

func elsewhere(s *corev1.Secret) *corev1.Secret {
	s.Namespace = "default"
	return s
}
