// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// TestKubeconfigOwnerComesBack restores the kubeconfig Secret from a backup: without its owner, or with the UID that the control plane had
// before. A kubeconfig that another controller provides keeps its owner.
func TestKubeconfigOwnerComesBack(t *testing.T) {
	owner := func(kind string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{
			APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: prod.Name, UID: uid, Controller: ptr.To(true),
		}}
	}
	tests := map[string]struct {
		owners []metav1.OwnerReference
		want   types.UID
	}{
		"no owner":           {nil, "now"},
		"the UID of before":  {owner("PortalControlPlane", "before"), "now"},
		"another controller": {owner("Vault", "vault"), "vault"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 1, emulator.Durations{})
				f.change(func(cp *infrav1.PortalControlPlane) {
					cp.UID, cp.Spec.ControlPlaneEndpoint = "now", clusterv1.APIEndpoint{Host: "192.0.2.7", Port: 6443}
				})
				stored := &corev1.Secret{Type: clusterv1.ClusterSecretType, ObjectMeta: metav1.ObjectMeta{
					Namespace: prod.Namespace, Name: prod.Name + "-kubeconfig", OwnerReferences: test.owners,
					Labels:      map[string]string{clusterv1.ClusterNameLabel: prod.Name},
					Annotations: map[string]string{access.FetchedAnnotation: "2026-01-01T00:00:00Z"},
				}}
				if err := f.store.Create(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
				s := newScopeFor(before)
				s.ControlPlane = f.controlPlane()
				s.Cluster.Namespace, s.Cluster.Name = prod.Namespace, prod.Name
				s.outcomes[infrav1.ProvisionedCondition] = outcome.Outcome{}
				s.Infrastructure = outcome.WaitFor(0, infrav1.WaitingForDependencyReason, "the portal is away")
				if o := f.manager.reconcileKubeconfig(t.Context(), s); o.Kind == outcome.Failed {
					t.Errorf("%+v", o)
				}
				if err := f.store.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
					t.Fatal(err)
				}
				if got := ptr.Deref(metav1.GetControllerOf(stored), metav1.OwnerReference{}).UID; got != test.want {
					t.Errorf("controlled by %q, want %q", got, test.want)
				}
			})
		})
	}
}
