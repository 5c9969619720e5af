// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// forget removes the object from the management cluster, and leaves the portal as it is.
func (e *estate) forget(key client.ObjectKey) {
	e.Helper()
	e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Finalizers = nil })
	e.must(e.store.Delete(e.Context(), e.get(key)))
}

// sawFirst makes only the first write of a pass over the object, and returns the object as a backup would hold it then.
func (e *estate) sawFirst(key client.ObjectKey) *infrav1.PortalControlPlane {
	e.Helper()
	s := e.scope(key)
	e.must(e.manager.Ownership.Begin(e.Context(), &s.Pass))
	return e.get(key)
}

// restore adds the object of the backup, with another UID.
func (e *estate) restore(backup *infrav1.PortalControlPlane) client.ObjectKey {
	e.Helper()
	return e.add(backup.Namespace, backup.Name, func(cp *infrav1.PortalControlPlane) {
		copyOf(backup)(cp)
		cp.UID = "uid-restored"
	})
}

// failOnce makes the next creation at the portal fail.
func (e *estate) failOnce() {
	e.Helper()
	e.must(e.portal.Inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, Job: emulator.JobFails, JobCode: emulator.CodeInsufficientCapacity}))
}

// TestOldBackup restores an object that was saved before its portal cluster was created, after the creation. No second cluster is
// created, and none is taken over by its name. The message names what a person has to look for.
func TestOldBackup(t *testing.T) {
	for title, test := range map[string]struct {
		fails  bool // the first creation
		change func(*infrav1.PortalControlPlane)
		spoil  func(*infrav1.PortalControlPlane) // the backup
		says   string
	}{
		"a generated name":              {says: `a cluster named "prod-`},
		"the name was replaced":         {fails: true, says: `, or another whose name begins with "prod-",`},
		"a chosen name":                 {change: func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = "main" }, says: `a cluster named "main" at`},
		"the name is not in the backup": {spoil: func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = "" }, says: `a cluster whose name begins with "prod-" at`},
		"no record is in the backup":    {spoil: func(cp *infrav1.PortalControlPlane) { cp.Annotations = nil }, says: `a cluster named "prod-`},
	} {
		for place, lists := range map[string]bool{"the portal lists clusters": true, "it does not": false} {
			t.Run(title+", "+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newEstate(t, lists)
					if test.fails {
						e.failOnce()
					}
					key := e.add("fleet", "prod", test.change)
					backup := e.sawFirst(key)
					for e.get(key).Spec.ClusterID == "" {
						e.passes(key)
					}
					asked := e.asked("POST")
					e.forget(key)
					if test.spoil != nil {
						test.spoil(backup)
					}
					e.restore(backup)
					o := e.passes(key)[key]
					if e.asked("POST") != asked || len(e.portal.Clusters()) != 1 {
						t.Errorf("%d more creations, %d clusters", e.asked("POST")-asked, len(e.portal.Clusters()))
					}
					if o.Reason != infrav1.RestoredObjectReason || !strings.Contains(o.Message, test.says) || !strings.Contains(o.Message, backup.Spec.ClusterName) {
						t.Fatalf("%+v", o)
					}
					e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = e.portal.Clusters()[0].ID })
					if o = e.passes(key)[key]; !o.IsDone() || !e.scope(key).Owns() || e.scope(key).DeletionPolicy() != infrav1.DeletionPolicyRetain {
						t.Errorf("with spec.clusterID: %+v", o)
					}
				})
			})
		}
	}
}

// TestRestoredWithoutCluster restores an object whose portal cluster was never created. It is created when a person allows it for this
// very object.
func TestRestoredWithoutCluster(t *testing.T) {
	manage(t, true, func(e *estate) {
		key := e.add("fleet", "prod", nil)
		backup := e.sawFirst(key)
		metav1.SetMetaDataAnnotation(&backup.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(string(backup.UID))) // does not count for a copy
		e.forget(key)
		e.restore(backup)
		o := e.passes(key)[key]
		if e.asked("POST") != 0 || o.Reason != infrav1.RestoredObjectReason || !strings.Contains(o.Message, infrav1.DecisionAnnotation+"=retry:uid-restored") {
			e.Fatalf("%d creations, %+v", e.asked("POST"), o)
		}
		e.change(key, func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About("uid-restored"))
		})
		o = e.passes(key)[key]
		s := e.scope(key)
		if !o.IsDone() || e.asked("POST") != 1 || !s.Owns() || s.ControlPlane.Spec.ClusterName != backup.Spec.ClusterName || s.DeletionPolicy() != infrav1.DeletionPolicyDelete {
			e.Errorf("%+v, %d creations, %+v", o, e.asked("POST"), s.ControlPlane.Spec)
		}
		if _, left := s.ControlPlane.Annotations[infrav1.DecisionAnnotation]; left {
			e.Error("the permission was not used up")
		}
	})
}

// restoreDuringCreation adds an object whose creation is accepted, loses it, and restores it from a backup of that moment.
func (e *estate) restoreDuringCreation() client.ObjectKey {
	e.Helper()
	key := e.add("fleet", "prod", nil)
	e.sawFirst(key)
	e.manager.reconcileCluster(e.Context(), e.scope(key))
	backup := e.get(key)
	e.forget(key)
	return e.restore(backup)
}

// TestRestoredDuringCreation restores an object whose creation was accepted before the backup: its job is looked at.
func TestRestoredDuringCreation(t *testing.T) {
	manage(t, false, func(e *estate) {
		key := e.restoreDuringCreation()
		o := e.passes(key)[key]
		if s := e.scope(key); !o.IsDone() || !s.Owns() || e.asked("POST") != 1 || s.DeletionPolicy() != infrav1.DeletionPolicyDelete {
			e.Errorf("%+v, %d creations, %+v", o, e.asked("POST"), s.Record)
		}
	})
}

// TestRestoredDeletedAtOnce deletes a restored object whose creation was under way. The cluster that the original object created
// stays.
func TestRestoredDeletedAtOnce(t *testing.T) {
	manage(t, false, func(e *estate) {
		key := e.restoreDuringCreation()
		e.events()
		if o := e.delete(key); !o.IsDone() || e.asked("DELETE") != 0 {
			e.Errorf("%+v, %d deletions", o, e.asked("DELETE"))
		}
		if got := e.events(); !slices.ContainsFunc(got, func(event string) bool { return strings.Contains(event, e.portal.Clusters()[0].ID) }) {
			e.Errorf("no event names what stays: %q", got)
		}
	})
}

// TestBegin checks which objects count as new, and that they have a name from then on.
func TestBegin(t *testing.T) {
	type row struct {
		change func(*infrav1.PortalControlPlane)
		begins bool
		name   string
	}
	cases(t, map[string]row{
		"from a manifest":            {nil, true, ""},
		"with a chosen name":         {func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = "main" }, true, "main"},
		"with an id":                 {func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = "c" }, false, ""},
		"with a generated name":      {func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = "prod-bcdfg" }, false, "prod-bcdfg"},
		"with the name of another":   {func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = "test-bcdfg" }, true, "test-bcdfg"},
		"with the record of another": {func(cp *infrav1.PortalControlPlane) { putRecord(cp, operation.Record{UID: "other"}) }, false, ""},
		"with an operation": {func(cp *infrav1.PortalControlPlane) {
			put(cp, &operation.Operation{ID: "1", Type: operation.Create, Result: operation.Refused})
		}, false, ""},
		"with a status": {func(cp *infrav1.PortalControlPlane) {
			conditions.Set(cp, metav1.Condition{Type: infrav1.ProvisionedCondition, Status: metav1.ConditionFalse, Reason: infrav1.CreatingReason})
		}, false, ""},
		"paused before": {func(cp *infrav1.PortalControlPlane) {
			conditions.Set(cp, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason})
		}, true, ""},
	}, func(t *testing.T, test row) {
		e := newEstate(t, false)
		cp := e.sawFirst(e.add("fleet", "prod", test.change))
		record := stateOf(cp).Record
		if got := record.UID == cp.UID; got != test.begins {
			t.Errorf("begins: %v", got)
		}
		if name := cp.Spec.ClusterName; name != test.name && !(test.begins && test.name == "" && regexp.MustCompile(`^prod-[a-z0-9]{5}$`).MatchString(name)) {
			t.Errorf("name %q", name)
		}
	})
}

// TestChosenNameStays has the creation of a cluster with a chosen name fail. The name is sent again, as the user's manifest has it.
func TestChosenNameStays(t *testing.T) {
	for title, test := range map[string]struct {
		name  string
		stays bool
	}{"chosen": {"main", true}, "generated": {"", false}} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEstate(t, false)
				e.failOnce()
				key := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = test.name })
				first := e.sawFirst(key).Spec.ClusterName
				for start := time.Now(); e.get(key).Spec.ClusterID == "" && time.Since(start) < time.Hour; {
					e.passes(key)
				}
				cp := e.get(key)
				if got := cp.Spec.ClusterName == first; got != test.stays || e.portal.Clusters()[len(e.portal.Clusters())-1].Name != cp.Spec.ClusterName {
					t.Errorf("name %q, then %q", first, cp.Spec.ClusterName)
				}
				if abandoned := e.record(key).AbandonedNames; !test.stays && !slices.Equal(abandoned, []string{first}) {
					t.Errorf("abandoned %q", abandoned)
				}
			})
		})
	}
}
