// SPDX-License-Identifier: Apache-2.0

package pass

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// TestPlaceIsUpToDate: nothing is created from the VPC and the network of a spec that a user has corrected since then. The identity comes
// next, and does not exist.
func TestPlaceIsUpToDate(t *testing.T) {
	for title, test := range map[string]struct {
		change func(*infrav1.PortalCluster)
		want   string
	}{
		"ready":                    {func(*infrav1.PortalCluster) {}, infrav1.IdentityInvalidReason},
		"corrected":                {func(pc *infrav1.PortalCluster) { pc.Generation = 2 }, infrav1.WaitingForDependencyReason},
		"not ready":                {func(pc *infrav1.PortalCluster) { pc.Status.Conditions = nil }, infrav1.WaitingForDependencyReason},
		"provisioned in the end":   {func(pc *infrav1.PortalCluster) { pc.Status = provisioned }, infrav1.IdentityInvalidReason},
		"provisioned, and changed": {func(pc *infrav1.PortalCluster) { pc.Status, pc.Generation = provisioned, 2 }, infrav1.IdentityInvalidReason},
	} {
		t.Run(title, func(t *testing.T) {
			pc := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Generation: 1}}
			pc.Spec.IdentityRef.Name = "id"
			pc.Status.ObservedGeneration = 1
			pc.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, ObservedGeneration: 1}}
			test.change(pc)
			scheme := schemes.Of(t, corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
			store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pc).Build()
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "PortalCluster", Name: "a"}
			p := &Pass{Cluster: cluster, ControlPlane: &infrav1.PortalControlPlane{ObjectMeta: cluster.ObjectMeta}}
			resolver := &identity.Resolver{Client: store, Live: client.Reader(store), Secrets: secretcache.New(nil, store)}
			if err := p.Load(t.Context(), store, resolver); err != nil || p.Infrastructure.Reason != test.want {
				t.Errorf("%+v, %v, want %s", p.Infrastructure, err, test.want)
			}
		})
	}
}

// TestWithdrawnIdentity: a namespace that may not use a shared identity any more deletes nothing, whatever its objects name, until it is allowed again.
func TestWithdrawnIdentity(t *testing.T) {
	for allowed, want := range map[string]string{"others": infrav1.IdentityNotAllowedReason, "default": ""} {
		pc := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		pc.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: "team"}
		shared := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
		shared.Spec.SecretRef.Name = "account"
		shared.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{List: []string{allowed}}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "account"}, Data: map[string][]byte{
			infrav1.IdentityBaseURL: []byte("https://portal.example"), infrav1.IdentityEmail: []byte("a@portal.example"), infrav1.IdentityPassword: []byte("p"),
		}}
		store := fake.NewClientBuilder().WithScheme(schemes.Of(t, corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)).
			WithObjects(pc, shared, secret).WithStatusSubresource(shared).Build()
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: "PortalCluster", Name: "a"}
		p := &Pass{Cluster: cluster, ControlPlane: &infrav1.PortalControlPlane{ObjectMeta: cluster.ObjectMeta}}
		p.ControlPlane.DeletionTimestamp, p.ControlPlane.Spec.ClusterID = ptr.To(metav1.Now()), "cluster-1"
		resolver := &identity.Resolver{Client: store, Live: store, Secrets: secretcache.New(nil, store), Namespace: "system", Pool: &cloud.Pool{}}
		if err := p.Load(t.Context(), store, resolver); err != nil || p.Infrastructure.Reason != want {
			t.Errorf("%s is allowed: %+v, %v, want %q", allowed, p.Infrastructure, err, want)
		}
	}
}

var provisioned = infrav1.PortalClusterStatus{Initialization: infrav1.PortalClusterInitialization{Provisioned: ptr.To(true)}}

// TestWithoutPortalCluster checks that a condition names the object that is missing, or the reference that is wrong.
func TestWithoutPortalCluster(t *testing.T) {
	for says, ref := range map[string]clusterv1.ContractVersionedObjectReference{
		"has no PortalCluster. Name it": {},
		"PortalCluster misspelt, which": {Kind: "PortalCluster", Name: "misspelt"},
		"names a DockerCluster":         {Kind: "DockerCluster", Name: "a"},
	} {
		p := &Pass{Cluster: &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{InfrastructureRef: ref}}, ControlPlane: &infrav1.PortalControlPlane{}}
		store := fake.NewClientBuilder().WithScheme(schemes.Of(t, infrav1.AddToScheme)).Build()
		if err := p.Load(t.Context(), store, nil); err != nil || p.Infrastructure.Reason != infrav1.WaitingForObjectReason ||
			!strings.Contains(p.Infrastructure.Message, says) {
			t.Errorf("%v, %v: %+v, %v", says, ref, p.Infrastructure, err)
		}
	}
}
