// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capportal/cluster-api-provider-portal/controllers/secretcache"
)

// TestKubeconfigIsReadOnce checks that many passes read the kubeconfig Secret once. A pass after the provider has stored another kubeconfig
// sees it, also while the metadata is that of the Secret before, and no pass changes what the others see.
func TestKubeconfigIsReadOnce(t *testing.T) {
	name := prod.Name + "-kubeconfig"
	meta := metav1.ObjectMeta{Namespace: prod.Namespace, Name: name, UID: types.UID("uid"), Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name}}
	reads := 0
	store := fake.NewClientBuilder().WithScheme(newScheme(t)).
		WithObjects(&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{secret.KubeconfigDataName: []byte("old")}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				reads++
				return c.Get(ctx, key, obj, opts...)
			},
		}).Build()
	stale := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(&corev1.Secret{ObjectMeta: meta}).Build()
	r := &Reconciler{Client: store, Secrets: secretcache.New(stale, store)}
	s := newScopeFor(before)
	s.ControlPlane.Namespace, s.ControlPlane.Name, s.ControlPlane.UID = prod.Namespace, prod.Name, "uid-prod"
	s.Cluster.Namespace, s.Cluster.Name = prod.Namespace, prod.Name
	read := func(want string) (stored storedKubeconfig) {
		for range 5 {
			var err error
			if stored, err = r.readKubeconfig(t.Context(), s); err != nil || stored.missing || string(stored.content()) != want {
				t.Fatalf("%q, missing %t, %v, want %q", stored.content(), stored.missing, err, want)
			}
			stored.Data["mark"] = nil
		}
		return stored
	}
	stored := read("old")
	if reads != 1 {
		t.Errorf("5 passes read the Secret %d times", reads)
	}
	if again := read("old"); len(again.Data) != 2 {
		t.Errorf("a pass sees what another one wrote into its copy: %v", again.Data)
	}
	if err := r.storeKubeconfig(t.Context(), s, stored, []byte("new")); err != nil {
		t.Fatal(err)
	}
	read("new")
}
