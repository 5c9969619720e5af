// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// TestClone copies an object in every state, into the same namespace under another name and into another namespace. One portal
// cluster is created, the original keeps it, and the deletion of the copy deletes nothing.
func TestClone(t *testing.T) {
	created := func(e *estate, key client.ObjectKey) { e.passes(key) }
	creating := func(e *estate, key client.ObjectKey) {
		for range 3 { // until the portal has accepted the creation
			s := e.scope(key)
			e.must(e.manager.Ownership.Begin(e.Context(), &s.Pass))
			e.manager.reconcileCluster(e.Context(), s)
		}
	}
	for title, moment := range map[string]func(*estate, client.ObjectKey){"created": created, "being created": creating} {
		for place, to := range map[string]client.ObjectKey{
			"same namespace": {Namespace: "fleet", Name: "copy"}, "another namespace": {Namespace: "elsewhere", Name: "prod"},
		} {
			for order, cloneFirst := range map[string]bool{"original first": false, "copy first": true} {
				t.Run(title+", "+place+", "+order, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e := newEstate(t, false)
						original := e.add("fleet", "prod", nil)
						moment(e, original)
						clone := e.add(to.Namespace, to.Name, copyOf(e.get(original)))
						keys := []client.ObjectKey{original, clone}
						if cloneFirst {
							slices.Reverse(keys)
						}
						last := e.passes(keys...)
						if o := last[original]; !o.IsDone() {
							t.Errorf("the original: %+v", o)
						}
						if o := last[clone]; o.Reason != infrav1.OwnedByAnotherReason || !strings.Contains(o.Message, "PortalControlPlane fleet/prod.") {
							t.Errorf("the copy: %+v", o)
						}
						if got := strings.Join(e.events(), "\n"); strings.Contains(got, infrav1.EventOwnershipGivenUp) {
							t.Errorf("the copy owned the cluster for a moment: %s", got)
						}
						if o := e.delete(clone); !o.IsDone() || e.asked("DELETE") != 0 {
							t.Errorf("deleting the copy: %+v, %d deletions", o, e.asked("DELETE"))
						}
						if got := strings.Join(e.events(), "\n"); !strings.Contains(got, infrav1.EventPortalClusterRetained) {
							t.Errorf("events %s", got)
						}
						if o := e.delete(original); !o.IsDone() || e.asked("DELETE") != 1 || e.asked("POST") != 1 {
							t.Errorf("deleting the original: %+v, %d creations, %d deletions", o, e.asked("POST"), e.asked("DELETE"))
						}
					})
				})
			}
		}
	}
}

// TestHandOver deletes the owner with Retain. The object that waits takes over the portal cluster, and deletes it only if the
// user has set that.
func TestHandOver(t *testing.T) {
	manage(t, false, func(e *estate) {
		owner := e.add("fleet", "prod", nil)
		e.passes(owner)
		heir := e.add("fleet", "heir", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = e.get(owner).Spec.ClusterID })
		if o := e.passes(owner, heir)[heir]; o.Reason != infrav1.OwnedByAnotherReason {
			e.Fatalf("%+v", o)
		}
		if requests := e.manager.fromControlPlane(e.Context(), e.get(owner)); len(requests) != 1 || requests[0].NamespacedName != heir {
			e.Errorf("a change of the owner wakes %v", requests)
		}
		e.change(owner, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
		e.delete(owner)
		e.events()
		if o := e.passes(heir)[heir]; !o.IsDone() || !e.scope(heir).Owns() || e.get(heir).Spec.DeletionPolicy != infrav1.DeletionPolicyRetain {
			e.Errorf("%+v, %+v", o, e.get(heir).Spec)
		}
		if got := e.events(); len(got) != 1 || !strings.Contains(got[0], infrav1.EventPortalClusterAdopted) || !strings.Contains(got[0], "Retain") {
			e.Errorf("events %q", got)
		}
		e.change(heir, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = "" })
		if e.delete(heir); e.asked("DELETE") != 0 {
			e.Error("an adopted cluster was deleted without the user's word")
		}
	})
}

// TestBothOwn: if two objects own a portal cluster, as after a race, the younger one gives it up, and reports that once.
func TestBothOwn(t *testing.T) {
	manage(t, false, func(e *estate) {
		older, younger := e.add("a", "older", own), e.add("b", "younger", own)
		last := e.passes(younger, older)
		if !last[older].IsDone() || last[younger].Reason != infrav1.OwnedByAnotherReason || !e.scope(older).Owns() || e.scope(younger).Owns() {
			e.Errorf("%+v", last)
		}
		if got := e.events(); len(got) != 1 || !strings.Contains(got[0], infrav1.EventOwnershipGivenUp) || !strings.Contains(got[0], "a/older") {
			e.Errorf("events %q", got)
		}
		if e.record(younger).Size != 3 {
			e.Error("the record was lost")
		}
	})
}

// own makes an object the owner of portal cluster c.
func own(cp *infrav1.PortalControlPlane) {
	cp.Spec.ClusterID = "c"
	putRecord(cp, operation.Record{UID: cp.UID, ClusterID: "c", Size: 3})
}

// TestDeletionOfARival deletes the younger of two objects that both own a portal cluster before it has given the cluster up.
func TestDeletionOfARival(t *testing.T) {
	manage(t, false, func(e *estate) {
		e.add("a", "older", own)
		if o := e.delete(e.add("b", "younger", own)); !o.IsDone() || e.asked("DELETE") != 0 {
			e.Errorf("%+v, %v", o, e.portal.RequestLog())
		}
	})
}

// TestUnclaimedDeletion deletes an object that never claimed the cluster in its spec, such as a restored one that the garbage collector
// deletes at once.
func TestUnclaimedDeletion(t *testing.T) {
	manage(t, false, func(e *estate) {
		original := e.add("fleet", "prod", nil)
		e.passes(original)
		backup := e.get(original)
		e.forget(original)
		e.events()
		if o := e.delete(e.restore(backup)); !o.IsDone() || e.asked("DELETE") != 0 {
			e.Errorf("%+v, %d deletions", o, e.asked("DELETE"))
		}
		if got := e.events(); len(got) != 1 || !strings.Contains(got[0], "does not own it") {
			e.Errorf("events %q", got)
		}
	})
}

// TestSamePortal: ids of different portals may be equal. A portal that is not known may be the same.
func TestSamePortal(t *testing.T) {
	type row struct {
		first, second string
		same          bool
	}
	cases(t, map[string]row{
		"the same":            {"https://portal.example", "https://portal.example", true},
		"in another spelling": {"https://portal.example/api", "https://Portal.example:443/api/", true},
		"another host":        {"https://portal.example", "https://portal.example.org", false},
		"another port":        {"https://portal.example", "https://portal.example:8443", false},
		"another path":        {"https://portal.example/eu", "https://portal.example/us", false},
		"not known":           {"https://portal.example", "", true},
		"no URL":              {"https://portal.example", "portal", true},
	}, func(t *testing.T, test row) {
		e := newEstate(t, false)
		adopt := func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = "c" }
		older, younger := e.add("a", "older", adopt), e.add("b", "younger", adopt)
		e.atPortal(older, test.first)
		if test.second != "" {
			e.atPortal(younger, test.second)
		}
		last := e.passes(older, younger)
		if got := last[younger].Reason == infrav1.OwnedByAnotherReason; got != test.same || !last[older].IsDone() {
			t.Errorf("%+v", last)
		}
	})
}

// TestLoserIsQuiet: an object that does not own its portal cluster looks at no job.
func TestLoserIsQuiet(t *testing.T) {
	manage(t, false, func(e *estate) {
		key := e.add("fleet", "copy", func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID = "c"
			putRecord(cp, operation.Record{UID: "another", ClusterID: "c"})
			put(cp, &operation.Operation{ID: "1", Type: operation.Scale, Target: "3", JobID: "job-1"})
		})
		if o := e.manager.reconcileOperation(e.Context(), e.scope(key)); o.IsDone() || o.Kind == outcome.Retry || e.asked("GET") != 0 {
			e.Errorf("%+v, %v", o, e.portal.RequestLog())
		}
	})
}

// TestUnnamedControlPlane copies the manifest of a control plane under another name into the same Cluster, owner reference and all. The Cluster names
// the first one. The second must not create a portal cluster, nor take one over: its owner would pay for two.
func TestUnnamedControlPlane(t *testing.T) {
	cases(t, map[string]string{"would create": "", "would take over": "cluster-of-old"}, func(t *testing.T, id string) {
		e := newEstate(t, false)
		key := e.add("fleet", "copy", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		for range 10 {
			s := e.scope(key)
			s.Cluster.Spec.ControlPlaneRef.Name = "prod"
			e.must(e.manager.Ownership.Begin(t.Context(), &s.Pass))
			o := e.manager.reconcileCluster(t.Context(), s)
			if o.Reason != infrav1.WaitingForObjectReason || !strings.Contains(o.Message, "spec.controlPlaneRef") || s.Owns() {
				t.Fatalf("%+v", o)
			}
			time.Sleep(10 * time.Second)
		}
		if n := e.asked("POST"); n != 0 {
			t.Errorf("%d creations", n)
		}
		if o := e.passes(key)[key]; id == "" && !o.IsDone() {
			t.Errorf("when the Cluster names it: %+v", o)
		}
	})
}

// TestNoteOfTheOwner: an object that names a portal cluster without owning it does not remove the owner's record when it is
// deleted. The owner can still delete the cluster when the namespace may not use the identity any more.
func TestNoteOfTheOwner(t *testing.T) {
	manage(t, false, func(e *estate) {
		owner := e.addSharing("team-a", "prod", nil)
		e.passes(owner)
		double := e.addSharing("team-a", "double", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = e.get(owner).Spec.ClusterID })
		e.passes(double)
		e.identity.Withdrawn = true
		e.change(double, func(cp *infrav1.PortalControlPlane) { controllerutil.AddFinalizer(cp, infrav1.ControlPlaneFinalizer) })
		e.must(e.store.Delete(e.Context(), e.get(double)))
		s := e.scope(double)
		if _, err := e.manager.reconcileDelete(e.Context(), s); err != nil || controllerutil.ContainsFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) {
			e.Fatalf("the other object did not go: %v, %+v", err, s.outcomes)
		}
		if o := e.delete(owner); !o.IsDone() {
			e.Errorf("the owner: %+v", o)
		}
	})
}

// TestCopyAdoptsAnother: a copy to which a user gives the id of another portal cluster does not compete with the original,
// although both have the same creation in their annotation.
func TestCopyAdoptsAnother(t *testing.T) {
	manage(t, false, func(e *estate) {
		original := e.add("fleet", "prod", nil)
		e.passes(original)
		second := e.add("fleet", "second", func(cp *infrav1.PortalControlPlane) {
			copyOf(e.get(original))(cp)
			cp.Spec.ClusterID = "another"
		})
		if last := e.passes(second, original); !last[original].IsDone() || !last[second].IsDone() || !e.scope(second).Owns() {
			e.Errorf("%+v", last)
		}
	})
}

// TestDeletionAfterALostCreation: while the object is being deleted, a person sets the id of the portal cluster that its lost
// creation made.
func TestDeletionAfterALostCreation(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.change(func(cp *infrav1.PortalControlPlane) {
			op := operation.New(operation.Create, "prod")
			op.Unknown, cp.Spec.ClusterID = "the manager stopped during the call", ""
			putRecord(cp, operation.Record{UID: cp.UID, Size: operation.SizeUnknown})
			put(cp, op)
		})
		f.leave(departure{owner: "present", noted: "present", leaves: true})
		if s := f.leaving(); s.outcomes[clusterv1.DeletingCondition].Reason != infrav1.OutcomeUnknownReason {
			f.Fatalf("%+v", s.outcomes)
		}
		f.events() // of the lost creation
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = f.id })
		s := f.leaving()
		if f.holds(s, infrav1.DeletionNotConfirmedReason); f.deletions() != 0 {
			f.Errorf("%d deletions", f.deletions())
		}
		f.change(func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionDelete.About(f.id))
		})
		if s = f.left(); s != nil || f.deletions() != 1 {
			f.Errorf("the object remains: %v; the portal was asked for %d deletions", s != nil, f.deletions())
		}
	})
}
