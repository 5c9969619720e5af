// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/workers"
)

// The cache of a real manager lags behind the API server, by milliseconds as a rule. These tests stop it, and check what must be read past it.

// behind is a client whose reads are those of an earlier moment.
type behind struct {
	client.Client
	cache client.Reader
}

// Get implements client.Client.
func (b behind) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return b.cache.Get(ctx, key, obj, opts...)
}

// List implements client.Client.
func (b behind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return b.cache.List(ctx, list, opts...)
}

// stopped returns a client of the store that reads what the store holds now, and goes on to do so.
func stopped(t *testing.T, store client.Client) client.Client {
	t.Helper()
	cache := fake.NewClientBuilder().WithScheme(newScheme(t)).
		WithIndex(&infrav1.PortalControlPlane{}, ownership.PortalClusterIndex, ownership.IndexPortalCluster)
	for _, list := range []client.ObjectList{
		&infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{}, &clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{},
		&clusterv1.MachineSetList{}, &clusterv1.MachineList{}, &clusterv1.MachinePoolList{}, &apiextensionsv1.CustomResourceDefinitionList{},
	} {
		if err := store.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		cache = cache.WithLists(list)
	}
	return behind{Client: store, cache: cache.Build()}
}

// TestSumIsReadLive lowers the replicas and raises them again. The cache still shows the low number. No node is drained, and none is removed.
func TestSumIsReadLive(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
		f.pass()
		f.scale(1)
		cache := stopped(f.T, f.store)
		f.scale(3)
		f.manager.Client = cache
		for range 100 {
			s := f.scope()
			var err error
			if s.members, err = workers.ReadMembers(f.Context(), cache, s.Cluster); err != nil {
				f.Fatal(err)
			}
			s.outcomes[infrav1.ConnectedCondition] = f.read(s)
			if o := f.manager.reconcileWorkers(f.Context(), s); o.Kind == outcome.Failed {
				f.Fatal(o.Err)
			}
			time.Sleep(5 * time.Second)
		}
		if names, n := f.cordoned(); len(names) > 0 || n != 3 {
			f.Errorf("%d workers, cordoned: %v", n, names)
		}
	})
}

// TestOtherOwnerIsReadLive: of two objects that name a portal cluster, the younger one has just claimed it. The cache of the older one does not
// show that yet. The older one does not claim the cluster too.
func TestOtherOwnerIsReadLive(t *testing.T) {
	manage(t, false, func(e *estate) {
		names := func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = "c" }
		older, owner := e.add("a", "older", names), e.add("b", "owner", names)
		e.manager.Ownership.Client = stopped(e.T, e.store)
		e.change(owner, func(cp *infrav1.PortalControlPlane) {
			putRecord(cp, operation.Record{UID: cp.UID, ClusterID: "c", Size: 3})
		})
		if o := e.passes(older)[older]; o.Reason != infrav1.OwnedByAnotherReason || e.scope(older).Owns() {
			e.Errorf("owns the portal cluster: %t; %+v", e.scope(older).Owns(), o)
		}
	})
}

// TestProtectionIsReadLive deletes a Cluster, and protects it at the last moment. The cache does not show the protection yet.
func TestProtectionIsReadLive(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.leave(departure{owner: "present", noted: "present", leaves: true})
		f.manager.Ownership.Client = stopped(f.T, f.store)
		cluster := &clusterv1.Cluster{}
		f.must(f.store.Get(f.Context(), prod, cluster))
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, infrav1.DeletionProtectionAnnotation, "true")
		f.must(f.store.Update(f.Context(), cluster))
		if s := f.left(); s == nil || f.deletions() > 0 {
			f.Errorf("the object is gone: %t; the portal was asked for %d deletions", s == nil, f.deletions())
		}
	})
}

// TestForgetDeletedCluster checks that a manager, which may run for months, remembers nothing of a portal cluster whose object is gone,
// whichever way it went.
func TestForgetDeletedCluster(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.editDeployment(func(md *clusterv1.MachineDeployment) {
			metav1.SetMetaDataAnnotation(&md.ObjectMeta, clusterv1.AutoscalerMinSizeAnnotation, "1")
			metav1.SetMetaDataAnnotation(&md.ObjectMeta, clusterv1.AutoscalerMaxSizeAnnotation, "5")
		})
		lost := f.worker()
		f.must(f.nodes.Delete(f.Context(), &lost))
		s := f.pass()
		for _, field := range []string{"drift", "pins"} {
			if reflect.ValueOf(f.manager.memory(s).workers).FieldByName(field).IsZero() {
				f.Fatalf("%s is not remembered of a cluster that is not being deleted: %+v", field, f.manager.memory(s))
			}
		}
		f.must(f.store.Delete(f.Context(), f.controlPlane()))
		if _, err := f.manager.Reconcile(f.Context(), ctrl.Request{NamespacedName: prod}); err != nil {
			f.Fatal(err)
		}
		if left := f.manager.memory(s); !reflect.DeepEqual(left, &memory{}) {
			f.Errorf("this is remembered: %+v", left)
		}
		if !slices.Equal(f.workloads.dropped, []client.ObjectKey{prod}) {
			f.Errorf("connections that end: %v", f.workloads.dropped)
		}
	})
}
