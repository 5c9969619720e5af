// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// The cache of a real manager lags behind the API server, by milliseconds as a rule. These tests stop it, and check what must be read past it.

// stopped returns a client of the store that reads what the store holds now, and goes on to do so.
func (e *estate) stopped() client.Client {
	e.Helper()
	cache := fake.NewClientBuilder().WithScheme(newScheme(e.T)).
		WithIndex(&infrav1.PortalControlPlane{}, ownership.PortalClusterIndex, ownership.IndexPortalCluster)
	for _, list := range []client.ObjectList{&infrav1.PortalControlPlaneList{}, &clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}} {
		e.must(e.store.List(e.Context(), list))
		cache = cache.WithLists(list)
	}
	then := cache.Build()
	return interceptor.NewClient(e.store, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			return then.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return then.List(ctx, list, opts...)
		},
	})
}

// TestSumIsReadLive lowers the replicas and raises them again. The cache still shows the low number. No node is drained, and none is removed.
func TestSumIsReadLive(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.expect(infrav1.RemovalOrderNewest)
		f.pass()
		f.scale(1)
		f.manager.Client = f.stopped()
		f.scale(3)
		f.passes(10*time.Minute, 5*time.Second)
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
		e.manager.Ownership.Client = e.stopped()
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
		f.leave(person.with(func(d *departure) { d.leaves = true }))
		f.manager.Ownership.Client = f.stopped()
		cluster := &clusterv1.Cluster{}
		f.must(f.store.Get(f.Context(), prod, cluster))
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, infrav1.DeletionProtectionAnnotation, "true")
		f.must(f.store.Update(f.Context(), cluster))
		if s := f.left(); s == nil || f.deletions() > 0 {
			f.Errorf("the object is gone: %t; the portal was asked for %d deletions", s == nil, f.deletions())
		}
	})
}

// TestForgetDeletedCluster checks that a manager, which may run for months, remembers nothing of a portal cluster whose object is gone.
func TestForgetDeletedCluster(t *testing.T) {
	live(t, 2, func(f *fixture) {
		s := f.pass()
		f.manager.memory(s).created.age(time.Now())
		f.must(f.store.Delete(f.Context(), f.controlPlane()))
		_, err := f.manager.Reconcile(f.Context(), ctrl.Request{NamespacedName: prod})
		f.must(err)
		if left := f.manager.memory(s).created; left != (sighting{}) || !slices.Equal(f.workloads.dropped, []client.ObjectKey{prod}) {
			f.Errorf("%+v is remembered, and the connections of %v end", left, f.workloads.dropped)
		}
	})
}

// TestClockOfWorkloadCluster: a Node that is being drained and stops being Ready for a moment counts as drained after 5 minutes, when
// Kubernetes has evicted its Pods, and not before, although the clock of the workload cluster differs from the manager's.
func TestClockOfWorkloadCluster(t *testing.T) {
	cases(t, map[string]time.Duration{"5 minutes behind": 5 * time.Minute, "5 minutes ahead": -5 * time.Minute}, func(t *testing.T, behind time.Duration) {
		f := newFixture(t, 2, emulator.Durations{})
		f.protectPods("db-0", "db-1")
		f.workloads.behind = behind
		f.scale(1)
		f.passes(10*time.Minute, 5*time.Second)
		draining, _ := f.cordoned()
		if len(draining) != 1 {
			t.Fatalf("drained: %v", draining)
		}
		f.changeNode(draining[0], func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Now().Add(-behind)),
			}}
		})
		began := time.Now()
		for len(f.answers("scale")) == 0 && time.Since(began) < time.Hour {
			f.passes(5*time.Second, 5*time.Second)
		}
		if took := time.Since(began); took < 5*time.Minute || took > 7*time.Minute {
			t.Errorf("the portal is asked to remove it after %s", took)
		}
	})
}

// TestClockOfTheAPIServer: a creation waits a few seconds for all MachineDeployments of a manifest, and up to a minute for those of a topology,
// although the API server's clock, which stamps the objects, differs from the manager's.
func TestClockOfTheAPIServer(t *testing.T) {
	cases(t, map[string]time.Duration{"10 minutes ahead": 10 * time.Minute, "10 minutes behind": -10 * time.Minute}, func(t *testing.T, ahead time.Duration) {
		e := newEstate(t, emulator.Options{})
		stamped := metav1.NewTime(time.Now().Add(time.Minute + ahead)) // add takes a minute
		key := client.ObjectKey{Namespace: "fleet", Name: "prod"}
		e.addWorkers(key, 1, stamped)
		e.add(key.Namespace, key.Name, nil)
		began := time.Now()
		for ; e.asked("POST") == 0 && time.Since(began) < time.Hour; time.Sleep(time.Second) {
			e.create(key)
		}
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("the creation waited %s for MachineDeployments of its manifest", waited)
		}
		s, missing, created := e.scope(key), workers.Desired{Awaited: workers.Awaited{Names: []string{"later"}}}, sighting{}
		for began = time.Now(); !s.awaitTopology(missing, created.age(stamped.Time)).IsDone(); time.Sleep(time.Second) {
			if time.Since(began) > 2*time.Minute {
				t.Fatal("the creation waits for the topology for more than two minutes")
			}
		}
	})
}
