// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// own makes an object the owner of portal cluster c. names makes it name that cluster.
func own(cp *infrav1.PortalControlPlane) {
	names(cp)
	putRecord(cp, operation.Record{UID: cp.UID, ClusterID: "c", Size: 3})
}

func names(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = "c" }

// TestClone copies an object into another namespace, while its portal cluster is created and afterwards. One portal cluster is created, the original
// keeps it, and the deletion of the copy deletes nothing.
func TestClone(t *testing.T) {
	type row struct{ created, copyFirst bool }
	cases(t, map[string]row{
		"created": {created: true}, "created, copy first": {true, true}, "being created": {}, "being created, copy first": {copyFirst: true},
	}, func(t *testing.T, test row) {
		e := newEstate(t, emulator.Options{})
		original := e.add("fleet", "prod", nil)
		for range 3 { // until the portal has accepted the creation
			e.create(original)
		}
		if test.created {
			e.passes(original)
		}
		clone := e.add("elsewhere", "prod", copyOf(e.get(original)))
		keys := []client.ObjectKey{original, clone}
		if test.copyFirst {
			slices.Reverse(keys)
		}
		last := e.passes(keys...)
		if o := last[clone]; !last[original].IsDone() || !says(o, infrav1.OwnedByAnotherReason, "PortalControlPlane fleet/prod.") {
			t.Errorf("%+v", last)
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

// TestDeletionOfARival has two objects that own a portal cluster, as after a race. The younger one gives it up, and reports that once. One that is
// deleted before it has given the cluster up deletes nothing.
func TestDeletionOfARival(t *testing.T) {
	manage(t, false, func(e *estate) {
		older, younger, youngest := e.add("a", "older", own), e.add("b", "younger", own), e.add("c", "youngest", own)
		if o := e.delete(youngest); !o.IsDone() || e.asked("DELETE") != 0 {
			e.Errorf("%+v, %d deletions", o, e.asked("DELETE"))
		}
		e.events()
		last := e.passes(younger, older)
		if !last[older].IsDone() || last[younger].Reason != infrav1.OwnedByAnotherReason || !e.scope(older).Owns() || e.scope(younger).Owns() {
			e.Errorf("%+v", last)
		}
		got, kept := e.events(), e.record(younger).Size == 3
		if len(got) != 1 || !strings.Contains(got[0], infrav1.EventOwnershipGivenUp) || !strings.Contains(got[0], "a/older") || !kept {
			e.Errorf("events %q, the record is kept: %t", got, kept)
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
		if o := e.delete(e.restore(backup)); !o.IsDone() || e.asked("DELETE") != 0 {
			e.Errorf("%+v, %d deletions", o, e.asked("DELETE"))
		}
		if got := strings.Join(e.events(), "\n"); !strings.Contains(got, "does not own it") {
			e.Errorf("events %s", got)
		}
	})
}

// TestSamePortal: ids of different portals may be equal. A portal that is not recorded may be the same.
func TestSamePortal(t *testing.T) {
	type row struct {
		portal func(e *estate) string // that the owner has recorded
		same   bool
	}
	cases(t, map[string]row{
		"the same":     {func(e *estate) string { return e.identity.Portal.Address() }, true},
		"another":      {func(*estate) string { return "portal.example" }, false},
		"not recorded": {func(*estate) string { return "" }, true},
	}, func(t *testing.T, test row) {
		e := newEstate(t, emulator.Options{})
		older, younger := e.add("a", "older", names), e.add("b", "younger", names)
		e.change(older, func(cp *infrav1.PortalControlPlane) {
			putRecord(cp, operation.Record{UID: cp.UID, ClusterID: cp.Spec.ClusterID, Portal: test.portal(e)})
		})
		if o := e.passes(younger)[younger]; (o.Reason == infrav1.OwnedByAnotherReason) != test.same {
			t.Errorf("%+v", o)
		}
	})
}

// TestLoserIsQuiet: an object that does not own its portal cluster looks at no job.
func TestLoserIsQuiet(t *testing.T) {
	manage(t, false, func(e *estate) {
		key := e.add("fleet", "copy", func(cp *infrav1.PortalControlPlane) {
			names(cp)
			putRecord(cp, operation.Record{UID: "another", ClusterID: "c"})
			put(cp, &operation.Operation{ID: "1", Type: operation.Scale, Target: "3", JobID: "job-1"})
		})
		if o := e.manager.reconcileOperation(e.Context(), e.scope(key)); o.IsDone() || o.Kind == outcome.Retry || e.asked("GET") != 0 {
			e.Errorf("%+v, %d requests", o, e.asked("GET"))
		}
	})
}

// TestUnnamedControlPlane copies the manifest of a control plane under another name into the same Cluster, owner reference and all. The Cluster names
// the first one. The second must not create a portal cluster, nor take one over: its owner would pay for two.
func TestUnnamedControlPlane(t *testing.T) {
	cases(t, map[string]string{"would create": "", "would take over": "cluster-of-old"}, func(t *testing.T, id string) {
		e := newEstate(t, emulator.Options{})
		key := e.add("fleet", "copy", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		for range 10 {
			s := e.scope(key)
			s.Cluster.Spec.ControlPlaneRef.Name = "prod"
			e.must(e.manager.Ownership.Begin(t.Context(), &s.Pass))
			o := e.manager.reconcileCluster(t.Context(), s)
			if !says(o, infrav1.WaitingForObjectReason, "spec.controlPlaneRef") || s.Owns() || e.asked("POST") != 0 {
				t.Fatalf("%d creations, %+v", e.asked("POST"), o)
			}
			time.Sleep(10 * time.Second)
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
			putRecord(cp, operation.Record{UID: cp.UID, Size: operation.SizeUnknown})
			put(cp, &operation.Operation{ID: "1", Type: operation.Create, Target: "prod", Unknown: "the manager stopped during the call"})
			cp.Spec.ClusterID = ""
		})
		f.leave(person.with(func(d *departure) { d.leaves = true }))
		if s := f.leaving(); s.outcomes[clusterv1.DeletingCondition].Reason != infrav1.OutcomeUnknownReason {
			f.Fatalf("%+v", s.outcomes)
		}
		f.events() // of the lost creation
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = f.id })
		if f.holds(f.leaving(), infrav1.DeletionNotConfirmedReason); f.deletions() != 0 {
			f.Errorf("%d deletions", f.deletions())
		}
		f.decide(infrav1.DecisionDelete.About(f.id))
		if s := f.left(); s != nil || f.deletions() != 1 {
			f.Errorf("the object remains: %v; the portal was asked for %d deletions", s != nil, f.deletions())
		}
	})
}
