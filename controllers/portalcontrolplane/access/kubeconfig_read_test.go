// SPDX-License-Identifier: Apache-2.0

package access

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

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

var prod = client.ObjectKey{Namespace: "fleet", Name: "prod"}

// TestKubeconfigIsReadOnce checks that many passes read the kubeconfig Secret once. A pass after the provider has stored another kubeconfig
// sees it, also while the metadata is that of the Secret before, and no pass changes what the others see.
func TestKubeconfigIsReadOnce(t *testing.T) {
	name := prod.Name + "-kubeconfig"
	meta := metav1.ObjectMeta{Namespace: prod.Namespace, Name: name, UID: types.UID("uid"), Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name}}
	reads, scheme := 0, schemes.Of(t, corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
	store := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{secret.KubeconfigDataName: []byte("old")}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				reads++
				return c.Get(ctx, key, obj, opts...)
			},
		}).Build()
	stale := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Secret{ObjectMeta: meta}).Build()
	k := &Kubeconfigs{Client: store, Secrets: secretcache.New(stale, store)}
	p := &pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, Cluster: &clusterv1.Cluster{}}
	p.ControlPlane.Namespace, p.ControlPlane.Name, p.ControlPlane.UID = prod.Namespace, prod.Name, "uid-prod"
	p.Cluster.Namespace, p.Cluster.Name = prod.Namespace, prod.Name
	read := func(want string) (stored storedKubeconfig) {
		for range 5 {
			var err error
			if stored, err = k.readKubeconfig(t.Context(), p); err != nil || stored.missing || string(stored.content()) != want {
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
	if err := k.storeKubeconfig(t.Context(), p, stored, []byte("new")); err != nil {
		t.Fatal(err)
	}
	read("new")
}
