// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// TestRestoreSecret checks whose Secrets get an owner, and which owner they have afterwards. Nothing is written a second time.
func TestRestoreSecret(t *testing.T) {
	controller := func(kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
	}
	earlier := controller("PortalControlPlane", "prod", "now")
	earlier[0].APIVersion = infrav1.GroupVersion.Group + "/v1alpha1"
	tests := map[string]struct {
		owners  []metav1.OwnerReference
		change  func(*corev1.Secret)
		owned   bool
		control types.UID // of the controller afterwards
	}{
		"the owner's already":              {owners: controller("PortalControlPlane", "prod", "now"), owned: true, control: "now"},
		"of an earlier API version":        {owners: earlier, owned: true, control: "now"},
		"no owner":                         {owned: true, control: "now"},
		"the owner before the restore":     {owners: controller("PortalControlPlane", "prod", "before"), owned: true, control: "now"},
		"another object of the kind":       {owners: controller("PortalControlPlane", "other", "other"), control: "other"},
		"another kind of the same name":    {owners: controller("KubeadmControlPlane", "prod", "other"), control: "other"},
		"no owner, and another type":       {change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }},
		"no owner, and of another Cluster": {change: func(s *corev1.Secret) { s.Labels[clusterv1.ClusterNameLabel] = "other" }},
		"an owner that does not control it": {
			owners: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "users", UID: "users"}}, owned: true, control: "now",
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			scheme := schemes.Of(t, corev1.AddToScheme, infrav1.AddToScheme)
			owner := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prod", UID: "now"}}
			secret := &corev1.Secret{Type: clusterv1.ClusterSecretType, ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "prod-kubeconfig", OwnerReferences: test.owners, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"},
			}}
			if test.change != nil {
				test.change(secret)
			}
			store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret).Build()
			stored := &corev1.Secret{}
			versions := map[string]bool{}
			for range 3 {
				if err := store.Get(t.Context(), client.ObjectKeyFromObject(secret), stored); err != nil {
					t.Fatal(err)
				}
				versions[stored.ResourceVersion] = true
				if owned, err := RestoreSecret(t.Context(), store, owner, "prod", stored.DeepCopy()); err != nil || owned != test.owned {
					t.Errorf("owned: %v, %v", owned, err)
				}
			}
			if len(versions) > 2 {
				t.Errorf("it was written more than once: %v", versions)
			}
			control := ptr.Deref(metav1.GetControllerOf(stored), metav1.OwnerReference{})
			if control.UID != test.control || test.owned && control.APIVersion != infrav1.GroupVersion.String() {
				t.Errorf("controlled by %+v, want %q", control, test.control)
			}
			if len(stored.OwnerReferences) < len(test.owners) {
				t.Errorf("an owner was lost: %+v", stored.OwnerReferences)
			}
		})
	}
}
