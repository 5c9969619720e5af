// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

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
			if err := e.manager.Ownership.Begin(e.Context(), &s.Pass); err != nil {
				e.Fatal(err)
			}
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
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		owner := e.add("fleet", "prod", nil)
		e.passes(owner)
		heir := e.add("fleet", "heir", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = e.get(owner).Spec.ClusterID })
		if o := e.passes(owner, heir)[heir]; o.Reason != infrav1.OwnedByAnotherReason {
			t.Fatalf("%+v", o)
		}
		if requests := e.manager.fromControlPlane(t.Context(), e.get(owner)); len(requests) != 1 || requests[0].NamespacedName != heir {
			t.Errorf("a change of the owner wakes %v", requests)
		}
		e.change(owner, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
		e.delete(owner)
		e.events()
		if o := e.passes(heir)[heir]; !o.IsDone() || !e.scope(heir).Owns() || e.get(heir).Spec.DeletionPolicy != infrav1.DeletionPolicyRetain {
			t.Errorf("%+v, %+v", o, e.get(heir).Spec)
		}
		if got := e.events(); len(got) != 1 || !strings.Contains(got[0], infrav1.EventPortalClusterAdopted) || !strings.Contains(got[0], "Retain") {
			t.Errorf("events %q", got)
		}
		e.change(heir, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = "" })
		if e.delete(heir); e.asked("DELETE") != 0 {
			t.Error("an adopted cluster was deleted without the user's word")
		}
	})
}

// TestDeletionPolicy checks which setting counts when the object is deleted.
func TestDeletionPolicy(t *testing.T) {
	for title, test := range map[string]struct {
		adopt     bool
		policy    infrav1.DeletionPolicy
		written   infrav1.DeletionPolicy
		deletions int
	}{
		"created":         {false, "", "", 1},
		"created, Retain": {false, infrav1.DeletionPolicyRetain, infrav1.DeletionPolicyRetain, 0},
		"adopted":         {true, "", infrav1.DeletionPolicyRetain, 0},
		"adopted, Delete": {true, infrav1.DeletionPolicyDelete, infrav1.DeletionPolicyDelete, 1},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEstate(t, false)
				key := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) {
					if cp.Spec.DeletionPolicy = test.policy; test.adopt {
						cp.Spec.ClusterID = "cluster-of-old"
					}
				})
				if o := e.passes(key)[key]; !o.IsDone() || e.get(key).Spec.DeletionPolicy != test.written {
					t.Errorf("%+v, policy %q", o, e.get(key).Spec.DeletionPolicy)
				}
				retained := fmt.Sprintf("Left portal cluster %s unchanged", e.get(key).Spec.ClusterID)
				e.delete(key)
				if got := e.asked("DELETE"); got != test.deletions {
					t.Errorf("%d deletions", got)
				}
				if got := strings.Contains(strings.Join(e.events(), "\n"), retained); got != (test.deletions == 0) {
					t.Errorf("an event says %q: %t", retained, got)
				}
			})
		})
	}
}

// TestBothOwn: if two objects own a portal cluster, as after a race, the younger one gives it up, and reports that once.
func TestBothOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		own := func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID = "c"
			putRecord(cp, operation.Record{UID: cp.UID, ClusterID: "c", Size: 3})
		}
		older, younger := e.add("a", "older", own), e.add("b", "younger", own)
		last := e.passes(younger, older)
		if !last[older].IsDone() || last[younger].Reason != infrav1.OwnedByAnotherReason || !e.scope(older).Owns() || e.scope(younger).Owns() {
			t.Errorf("%+v", last)
		}
		if got := e.events(); len(got) != 1 || !strings.Contains(got[0], infrav1.EventOwnershipGivenUp) || !strings.Contains(got[0], "a/older") {
			t.Errorf("events %q", got)
		}
		if e.record(younger).Size != 3 {
			t.Error("the record was lost")
		}
	})
}

// TestDeletionOfARival deletes the younger of two objects that both own a portal cluster before it has given the cluster up.
func TestDeletionOfARival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		own := func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID = "c"
			putRecord(cp, operation.Record{UID: cp.UID, ClusterID: "c", Size: 3})
		}
		e.add("a", "older", own)
		if o := e.delete(e.add("b", "younger", own)); !o.IsDone() || e.asked("DELETE") != 0 {
			t.Errorf("%+v, %v", o, e.portal.RequestLog())
		}
	})
}

// TestUnclaimedDeletion deletes an object that never claimed the cluster in its spec, such as a restored one that the garbage collector
// deletes at once.
func TestUnclaimedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		original := e.add("fleet", "prod", nil)
		e.passes(original)
		backup := e.get(original)
		e.change(original, func(cp *infrav1.PortalControlPlane) { cp.Finalizers = nil })
		if err := e.store.Delete(t.Context(), e.get(original)); err != nil {
			t.Fatal(err)
		}
		e.events()
		restored := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) {
			copyOf(backup)(cp)
			cp.UID = "uid-restored"
		})
		if o := e.delete(restored); !o.IsDone() || e.asked("DELETE") != 0 {
			t.Errorf("%+v, %d deletions", o, e.asked("DELETE"))
		}
		if got := e.events(); len(got) != 1 || !strings.Contains(got[0], "does not own it") {
			t.Errorf("events %q", got)
		}
	})
}

// TestSamePortal: ids of different portals may be equal. A portal that is not known may be the same.
func TestSamePortal(t *testing.T) {
	for title, test := range map[string]struct {
		first, second string
		same          bool
	}{
		"the same":            {"https://portal.example", "https://portal.example", true},
		"in another spelling": {"https://portal.example/api", "https://Portal.example:443/api/", true},
		"another host":        {"https://portal.example", "https://portal.example.org", false},
		"another port":        {"https://portal.example", "https://portal.example:8443", false},
		"another path":        {"https://portal.example/eu", "https://portal.example/us", false},
		"not known":           {"https://portal.example", "", true},
		"no URL":              {"https://portal.example", "portal", true},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// TestLoserIsQuiet: an object that does not own its portal cluster looks at no job.
func TestLoserIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		key := e.add("fleet", "copy", func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID = "c"
			putRecord(cp, operation.Record{UID: "another", ClusterID: "c"})
			put(cp, &operation.Operation{ID: "1", Type: operation.Scale, Target: "3", JobID: "job-1"})
		})
		if o := e.manager.reconcileOperation(t.Context(), e.scope(key)); o.IsDone() || o.Kind == outcome.Retry || e.asked("GET") != 0 {
			t.Errorf("%+v, %v", o, e.portal.RequestLog())
		}
	})
}

// TestUnnamedControlPlane copies the manifest of a control plane under another name into the same Cluster, owner reference and all. The Cluster names
// the first one. The second must not create a portal cluster, nor take one over: its owner would pay for two.
func TestUnnamedControlPlane(t *testing.T) {
	for title, id := range map[string]string{"would create": "", "would take over": "cluster-of-old"} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEstate(t, false)
				key := e.add("fleet", "copy", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
				for range 10 {
					s := e.scope(key)
					s.Cluster.Spec.ControlPlaneRef.Name = "prod"
					if err := e.manager.Ownership.Begin(t.Context(), &s.Pass); err != nil {
						t.Fatal(err)
					}
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
		})
	}
}
