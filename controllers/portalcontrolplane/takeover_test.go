// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// victim makes the portal create a cluster, and its owner leave this management cluster. It returns the cluster's id and name.
func (e *estate) victim() (id, name string) {
	e.Helper()
	key := e.add("victim", "prod", nil)
	e.passes(key)
	cp := e.get(key)
	if cp.Spec.ClusterID == "" {
		e.Fatal("no portal cluster")
	}
	e.forget(key)
	return cp.Spec.ClusterID, cp.Spec.ClusterName
}

// TestGuessedName: a user chooses the name that was generated for another user's portal cluster. The object does not get that
// cluster, neither at once, nor when the user allows a creation whose answer is lost.
func TestGuessedName(t *testing.T) {
	manage(t, true, func(e *estate) {
		id, name := e.victim()
		key := e.add("tenant", "prod", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = name })
		if o := e.passes(key)[key]; o.Reason != infrav1.RestoredObjectReason || e.get(key).Spec.ClusterID != "" {
			e.Fatalf("%+v, cluster %q", o, e.get(key).Spec.ClusterID)
		}
		e.must(e.portal.Inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Cut: true}))
		uid := string(e.get(key).UID)
		e.change(key, func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(uid))
		})
		o := e.passes(key)[key]
		if got := e.get(key).Spec.ClusterID; got == id || got != "" {
			e.Errorf("the tenant has cluster %q, %+v", got, o)
		}
	})
}

// TestAnotherPortal: a user changes the portal in the identity while a cluster is being created, and afterwards. Ids of one
// portal are never used at another one, where they may belong to another user's cluster.
func TestAnotherPortal(t *testing.T) {
	cases(t, map[string][]emulator.Fault{
		"accepted": nil,
		"lost": {
			{Method: "POST", Path: "/kubernetes-clusters", Cut: true, After: true, Count: 1},
			{Method: "GET", Path: "/kubernetes-clusters", Cut: true, Count: 1},
		},
	}, func(t *testing.T, faults []emulator.Fault) {
		e := newEstate(t, true)
		for _, fault := range faults {
			e.must(e.portal.Inject(fault))
		}
		here := e.identity.Portal
		there := newCloud(t, "https://elsewhere.example", e.portal.Transport())
		key := e.add("tenant", "prod", nil)
		e.sawFirst(key)
		e.manager.reconcileCluster(t.Context(), e.scope(key))

		e.identity.Portal = there
		if o := e.passes(key)[key]; o.IsDone() || e.get(key).Spec.ClusterID != "" {
			t.Errorf("at another portal: %+v, cluster %q", o, e.get(key).Spec.ClusterID)
		}
		e.identity.Portal = here
		if o := e.passes(key)[key]; !o.IsDone() || !e.scope(key).Owns() || !e.scope(key).CheckPortal().IsDone() {
			t.Errorf("back at its portal: %+v, %+v", o, e.record(key))
		}
		e.identity.Portal = there
		if o := e.scope(key).CheckPortal(); o.Reason != infrav1.AccountChangedReason {
			t.Errorf("later at another portal: %+v", o)
		}
		e.trusts(key)
	})
}

// trusts checks that a decision about the address that the identity names, and no other one, lets the object use its portal cluster there. The
// operation in flight moves along.
func (e *estate) trusts(key client.ObjectKey) {
	e.Helper()
	decide := func(address string) {
		e.change(key, func(cp *infrav1.PortalControlPlane) {
			state, _ := operation.Load(cp)
			state.Last = operation.New(operation.Scale, "2")
			state.Last.Portal = state.Record.Portal
			state.Put(cp)
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionTrust.About(address))
		})
	}
	decide("wrong.example:443")
	if o := e.scope(key).CheckPortal(); o.Reason != infrav1.AccountChangedReason || !strings.Contains(o.Message, "decision=trust:elsewhere.example:443") {
		e.Errorf("a decision about another address: %+v", o)
	}
	decide("elsewhere.example:443")
	if o := e.scope(key).CheckPortal(); !o.IsDone() {
		e.Errorf("a decision about this address: %+v", o)
	}
	if o := e.passes(key)[key]; !o.IsDone() || e.record(key).Portal != "elsewhere.example:443" {
		e.Errorf("trusted: %+v, %+v", o, e.record(key))
	}
	e.change(key, func(cp *infrav1.PortalControlPlane) {
		if state, _ := operation.Load(cp); state.Last.Portal != "elsewhere.example:443" || cp.Annotations[infrav1.DecisionAnnotation] != "" {
			e.Errorf("the operation's portal is %q, and the decision %q", state.Last.Portal, cp.Annotations[infrav1.DecisionAnnotation])
		}
	})
}

// TestPortalIsNoted: a person sets the id of a portal cluster. Its portal is recorded as soon as it is known.
func TestPortalIsNoted(t *testing.T) {
	manage(t, true, func(e *estate) {
		id, _ := e.victim()
		key := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		e.passes(key)
		if got := e.record(key).Portal; got != "portal.example:443" {
			e.Errorf("portal %q", got)
		}
	})
}

// TestCreationFollowsItsPortal gives the portal a new URL while it creates a cluster. When a person has said so, the creation goes on there.
func TestCreationFollowsItsPortal(t *testing.T) {
	cases(t, map[string]emulator.Fault{
		"accepted": {JobDelay: 10 * time.Minute}, "lost": {JobDelay: 2 * time.Minute, Cut: true, After: true},
	}, func(t *testing.T, fault emulator.Fault) {
		e := newEstate(t, true)
		fault.Method, fault.Path, fault.Count = "POST", "/kubernetes-clusters", 1
		e.must(e.portal.Inject(fault))
		key := e.add("fleet", "prod", nil)
		for range 3 {
			e.create(key)
		}
		e.identity.Portal = newCloud(t, "https://elsewhere.example", e.portal.Transport())
		o := e.passes(key)[key]
		if o.Kind != outcome.Stalled || e.get(key).Spec.ClusterID != "" {
			t.Fatalf("at another portal: %+v", o)
		}
		e.change(key, func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionTrust.About("elsewhere.example:443"))
		})
		for range 15 {
			o = e.passes(key)[key]
		}
		if cp := e.get(key); !o.IsDone() || cp.Spec.ClusterID == "" || e.asked("POST") != 1 || metav1.HasAnnotation(cp.ObjectMeta, infrav1.DecisionAnnotation) {
			t.Errorf("%+v, cluster %q, %d creations", o, cp.Spec.ClusterID, e.asked("POST"))
		}
	})
}
