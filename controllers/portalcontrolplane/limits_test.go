// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
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
	return o.Kind == outcome.Stalled && o.Reason == infrav1.IdentityNotAllowedReason && strings.Contains(o.Message, says)
}

// TestPlaceLimit: a value that a user writes into the status of the PortalCluster leads to no other VPC, and no name is tried in
// another zone.
func TestPlaceLimit(t *testing.T) {
	cases(t, map[string]*infrav1.PortalIdentityLimits{"zone": {Zones: []string{"another"}}, "VPC": {VPCs: []string{"another"}}}, func(t *testing.T, limits *infrav1.PortalIdentityLimits) {
		e := newEstate(t, false)
		e.identity.Limits = limits
		key := e.addSharing("team-a", "first", nil)
		if last := e.passes(key); !refusedByLimit(last[key], "another") || e.asked("POST") != 0 {
			t.Errorf("asked %d times: %+v", e.asked("POST"), last)
		}
	})
}

// TestAsksForNoMoreThanItManages: the portal is not asked for more workers than the provider can manage, because they would be
// billed and never have a Machine. It is asked again when the replicas are lowered.
func TestAsksForNoMoreThanItManages(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.scale(501)
		for range 6 {
			o := f.pass().outcomes[infrav1.WorkersReadyCondition]
			if o.Kind != outcome.Stalled || o.Reason != infrav1.TooManyNodesReason || !strings.Contains(o.Message, "501 workers") || !strings.Contains(o.Message, "500") {
				f.Fatalf("%+v", o)
			}
			time.Sleep(10 * time.Minute)
		}
		if asked := f.answers("scale"); len(asked) != 0 {
			f.Fatalf("the portal was asked: %s", asked)
		}
		f.scale(3)
		f.passes(6*time.Minute, time.Minute)
		if size := f.portal.Clusters()[0].Size; size != 3 {
			f.Errorf("%d workers", size)
		}
	})
}

// TestCreatesNoMoreThanItManages: no portal cluster is created with more workers than the provider can manage.
func TestCreatesNoMoreThanItManages(t *testing.T) {
	manage(t, false, func(e *estate) {
		key := e.add("default", "large", nil)
		e.addWorkers(key, 501, metav1.Now())
		o := e.passes(key)[key]
		if o.Kind != outcome.Stalled || o.Reason != infrav1.TooManyNodesReason || !strings.Contains(o.Message, "501 workers") || e.asked("POST") != 0 {
			e.Errorf("asked %d times: %+v", e.asked("POST"), o)
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
	type row struct {
		change func(e *estate, key client.ObjectKey, other string)
		gone   bool
	}
	cases(t, map[string]row{
		"its own cluster":              {func(*estate, client.ObjectKey, string) {}, true},
		"a cluster that it claims now": {func(e *estate, key client.ObjectKey, other string) { e.change(key, names(other)); e.passes(key) }, false},
		"a cluster that its record claims": {func(e *estate, key client.ObjectKey, other string) {
			e.change(key, names(other))
			e.change(key, func(cp *infrav1.PortalControlPlane) {
				putRecord(cp, operation.Record{UID: cp.UID, ClusterID: other, Workers: &infrav1.WorkerParameters{}})
			})
		}, false},
		"a creation under way": {func(e *estate, key client.ObjectKey, _ string) {
			e.change(key, func(cp *infrav1.PortalControlPlane) {
				cp.Spec.ClusterID = ""
				op := operation.New(operation.Create, "victim")
				op.JobID = "of another"
				put(cp, op)
			})
		}, false},
	}, func(t *testing.T, test row) {
		e := newEstate(t, false)
		victim := e.addSharing("team-a", "victim", nil)
		e.passes(victim)
		id := e.get(victim).Spec.ClusterID
		e.forget(victim) // the cluster has no owner now
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
}
