// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// addSharing creates a PortalControlPlane whose PortalCluster uses PortalClusterIdentity "team".
func (e *estate) addSharing(namespace, name string, change func(*infrav1.PortalControlPlane)) client.ObjectKey {
	e.Helper()
	e.identity.Shared = "team"
	share(e.T, e.store, namespace, name)
	return e.add(namespace, name, func(cp *infrav1.PortalControlPlane) {
		cp.Labels = map[string]string{clusterv1.ClusterNameLabel: name}
		if change != nil {
			change(cp)
		}
	})
}

// share creates the PortalCluster of the Cluster of that name, with PortalClusterIdentity "team".
func share(t *testing.T, store client.Client, namespace, name string) {
	t.Helper()
	pc := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name}}}
	pc.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: "team"}
	if err := store.Create(t.Context(), pc); err != nil {
		t.Fatal(err)
	}
}

func refusedByLimit(o outcome.Outcome, says string) bool {
	return o.Kind == outcome.Stalled && o.Reason == infrav1.IdentityLimitReachedReason && strings.Contains(o.Message, says)
}

// TestClusterLimit: the second cluster of an identity that allows one is not created before the first is gone.
func TestClusterLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		e.identity.Limits = &infrav1.PortalIdentityLimits{Clusters: ptr.To[int32](1)}
		first, second := e.addSharing("team-a", "first", nil), e.addSharing("team-b", "second", nil)
		last := e.passes(first, second)
		if !last[first].IsDone() || !refusedByLimit(last[second], `"team" allows 1 clusters, and 1 exist`) || len(e.portal.Clusters()) != 1 {
			t.Fatalf("%d clusters: %+v", len(e.portal.Clusters()), last)
		}
		if o := e.delete(first); !o.IsDone() {
			t.Fatalf("%+v", o)
		}
		if last = e.passes(second); !last[second].IsDone() {
			t.Errorf("%+v", last)
		}
	})
}

// TestRefusedCreationGivesItsPlaceBack: a creation that the portal refuses takes no place.
func TestRefusedCreationGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		e.identity.Limits = &infrav1.PortalIdentityLimits{Clusters: ptr.To[int32](1)}
		first, second := e.addSharing("team-a", "first", nil), e.addSharing("team-b", "second", nil)
		if err := e.portal.Inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Status: 422, Code: "QUOTA_EXCEEDED", Count: 1}); err != nil {
			t.Fatal(err)
		}
		for _, key := range []client.ObjectKey{first, second} {
			s := e.scope(key)
			if err := e.manager.change(t.Context(), s, s.firstWrite()); err != nil {
				t.Fatal(err)
			}
			o := e.manager.reconcileCluster(t.Context(), s)
			if key == first && o.Reason != infrav1.QuotaExceededReason || key == second && o.Reason != infrav1.CreatingReason {
				t.Errorf("%s: %+v", key, o)
			}
		}
	})
}

// TestPlaceLimit: a value that a user writes into the status of the PortalCluster leads to no other VPC, and no name is tried in
// another zone.
func TestPlaceLimit(t *testing.T) {
	for title, limits := range map[string]*infrav1.PortalIdentityLimits{"zone": {Zones: []string{"another"}}, "VPC": {VPCs: []string{"another"}}} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEstate(t, false)
				e.identity.Limits = limits
				key := e.addSharing("team-a", "first", nil)
				if last := e.passes(key); !refusedByLimit(last[key], "another") || e.asked("POST") != 0 {
					t.Errorf("asked %d times: %+v", e.asked("POST"), last)
				}
			})
		})
	}
}

// TestWorkerLimit: replicas beyond the limit are not requested, those within are, and a lowered limit removes nothing.
func TestWorkerLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{})
		share(t, f.store, prod.Namespace, prod.Name)
		share(t, f.store, "elsewhere", "other")
		other := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{
			Namespace: "elsewhere", Name: "other", UID: "uid-other", Labels: map[string]string{clusterv1.ClusterNameLabel: "other"},
		}}
		other.Spec.ClusterID = "id-other"
		operation.PutRecord(other, &operation.Record{Size: 3})
		if err := f.store.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		settle := func(replicas int32) outcome.Outcome {
			t.Helper()
			f.scale(replicas)
			var s *scope
			for range 12 {
				s = f.pass()
				time.Sleep(10 * time.Second)
			}
			return s.outcomes[infrav1.WorkersReadyCondition]
		}
		size := func() int { return f.portal.Clusters()[0].Size }
		f.limits = &infrav1.PortalIdentityLimits{Workers: ptr.To[int32](6)}
		if o := settle(4); !refusedByLimit(o, `allows 6 workers. Other clusters have 3 of them, and this one wants 4`) || size() != 2 {
			t.Errorf("%d workers: %+v", size(), o)
		}
		if o := settle(3); o.Reason == infrav1.IdentityLimitReachedReason || size() != 3 {
			t.Errorf("%d workers: %+v", size(), o)
		}
		f.limits = &infrav1.PortalIdentityLimits{Workers: ptr.To[int32](1), Clusters: ptr.To[int32](1)}
		if o := settle(3); o.Reason == infrav1.IdentityLimitReachedReason || size() != 3 {
			t.Errorf("%d workers after the limit was lowered: %+v", size(), o)
		}
		if o := settle(4); !refusedByLimit(o, "allows 1 workers") || size() != 3 {
			t.Errorf("%d workers: %+v", size(), o)
		}
	})
}

// TestWithdrawn: when the namespace may not use its identity any more, it can delete the clusters that belonged to it before, and
// no others.
func TestWithdrawn(t *testing.T) {
	names := func(other string) func(cp *infrav1.PortalControlPlane) {
		return func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID, cp.Spec.DeletionPolicy = other, infrav1.DeletionPolicyDelete
		}
	}
	tests := map[string]struct {
		change func(e *estate, key client.ObjectKey, other string)
		gone   bool
	}{
		"its own cluster":              {func(*estate, client.ObjectKey, string) {}, true},
		"a cluster that it claims now": {func(e *estate, key client.ObjectKey, other string) { e.change(key, names(other)); e.passes(key) }, false},
		"a cluster that its record claims": {func(e *estate, key client.ObjectKey, other string) {
			e.change(key, names(other))
			e.change(key, func(cp *infrav1.PortalControlPlane) {
				operation.PutRecord(cp, &operation.Record{UID: cp.UID, ClusterID: other, Workers: &infrav1.WorkerParameters{}})
			})
		}, false},
		"a creation under way": {func(e *estate, key client.ObjectKey, _ string) {
			e.change(key, func(cp *infrav1.PortalControlPlane) {
				cp.Spec.ClusterID = ""
				op := operation.New(operation.Create, "victim")
				op.JobID = "of another"
				operation.Put(cp, op)
			})
		}, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEstate(t, false)
				victim := e.addSharing("team-a", "victim", nil)
				e.passes(victim)
				id := e.get(victim).Spec.ClusterID
				e.change(victim, func(cp *infrav1.PortalControlPlane) { cp.Finalizers = nil })
				if err := e.store.Delete(t.Context(), e.get(victim)); err != nil { // the cluster has no owner now
					t.Fatal(err)
				}
				key := e.addSharing("team-b", "attacker", nil)
				e.passes(key)
				e.identity.Withdrawn = true
				before := len(e.portal.RequestLog())
				test.change(e, key, id)
				if o := e.delete(key); o.IsDone() != test.gone || !test.gone && o.Reason != infrav1.IdentityNotAllowedReason {
					t.Errorf("%+v", o)
				}
				if asked := len(e.portal.RequestLog()) > before; asked != test.gone {
					t.Errorf("the portal was asked: %v", asked)
				}
			})
		})
	}
}
