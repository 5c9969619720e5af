// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
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

// TestOldBackup restores an object that was saved before its portal cluster was created. No second cluster is created, and none is taken over by its
// name. The message names what a person has to look for, and spec.clusterID is the way out.
func TestOldBackup(t *testing.T) {
	type row struct {
		recorded   bool // in the backup
		name, says string
	}
	cases(t, map[string]row{
		"a generated name": {true, "prod-bcdfg", `a cluster named "prod-bcdfg", or another whose name begins with "prod-",`},
		"a chosen name":    {true, "another", `a cluster named "another" at`},
		"no name":          {true, "", `a cluster whose name begins with "prod-" at`},
		"no record":        {false, "prod-bcdfg", `a cluster named "prod-bcdfg"`},
	}, func(t *testing.T, test row) {
		e := newEstate(t, emulator.Options{ListClusters: true})
		id := e.another()
		key := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) {
			if cp.Spec.ClusterName = test.name; test.recorded {
				putRecord(cp, operation.Record{UID: "of-before"})
			}
		})
		if o := e.passes(key)[key]; !says(o, infrav1.RestoredObjectReason, test.says) || len(e.portal.Clusters()) != 1 {
			t.Fatalf("%d clusters, %+v", len(e.portal.Clusters()), o)
		}
		e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		if o := e.passes(key)[key]; !o.IsDone() || !e.scope(key).Owns() || e.scope(key).DeletionPolicy() != infrav1.DeletionPolicyRetain {
			t.Errorf("with spec.clusterID: %+v", o)
		}
	})
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
		retry := infrav1.DecisionRetry.About("uid-restored")
		o := e.passes(key)[key]
		if e.asked("POST") != 0 || !says(o, infrav1.RestoredObjectReason, infrav1.DecisionAnnotation+"="+retry) {
			e.Fatalf("%d creations, %+v", e.asked("POST"), o)
		}
		e.decide(key, retry)
		o = e.passes(key)[key]
		s := e.scope(key)
		named, used := s.ControlPlane.Spec.ClusterName == backup.Spec.ClusterName, s.ControlPlane.Annotations[infrav1.DecisionAnnotation] == ""
		if !o.IsDone() || e.asked("POST") != 1 || !s.Owns() || !named || !used || s.DeletionPolicy() != infrav1.DeletionPolicyDelete {
			e.Errorf("%+v, %d creations, named as before: %t, the permission is used up: %t", o, e.asked("POST"), named, used)
		}
	})
}

// TestRestoredDuringCreation restores an object whose creation was accepted before the backup: its job is looked at. If the restored object is
// deleted at once, the cluster that the original object created stays.
func TestRestoredDuringCreation(t *testing.T) {
	cases(t, map[string]bool{"it stays": true, "deleted at once": false}, func(t *testing.T, stays bool) {
		e := newEstate(t, emulator.Options{})
		key := e.add("fleet", "prod", nil)
		e.create(key)
		backup := e.get(key)
		e.forget(key)
		e.restore(backup)
		e.events()
		if stays {
			o := e.passes(key)[key]
			if s := e.scope(key); !o.IsDone() || !s.Owns() || e.asked("POST") != 1 || s.DeletionPolicy() != infrav1.DeletionPolicyDelete {
				t.Errorf("%+v, %d creations, %+v", o, e.asked("POST"), s.Record)
			}
			return
		}
		if o := e.delete(key); !o.IsDone() || e.asked("DELETE") != 0 || !strings.Contains(strings.Join(e.events(), "\n"), e.portal.Clusters()[0].ID) {
			t.Errorf("%+v, %d deletions", o, e.asked("DELETE"))
		}
	})
}

// TestBegin checks which objects count as new, and that they have a name from then on.
func TestBegin(t *testing.T) {
	has := func(condition, reason string) func(*infrav1.PortalControlPlane) {
		return func(cp *infrav1.PortalControlPlane) {
			conditions.Set(cp, metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: reason})
		}
	}
	const generated = `^prod-[a-z0-9]{5}$`
	type row struct {
		change func(*infrav1.PortalControlPlane)
		begins bool
		name   string
	}
	cases(t, map[string]row{
		"from a manifest":            {nil, true, generated},
		"with a chosen name":         {func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = "main" }, true, "^main$"},
		"with an id":                 {func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = "c" }, false, "^$"},
		"with a generated name":      {func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = "prod-bcdfg" }, false, "^prod-bcdfg$"},
		"with the record of another": {func(cp *infrav1.PortalControlPlane) { putRecord(cp, operation.Record{UID: "other"}) }, false, "^$"},
		"with an operation":          {func(cp *infrav1.PortalControlPlane) { put(cp, &operation.Operation{ID: "1", Type: operation.Create}) }, false, "^$"},
		"with a status":              {has(infrav1.ProvisionedCondition, infrav1.CreatingReason), false, "^$"},
		"paused before":              {has(clusterv1.PausedCondition, clusterv1.NotPausedReason), true, generated},
	}, func(t *testing.T, test row) {
		e := newEstate(t, emulator.Options{})
		cp := e.sawFirst(e.add("fleet", "prod", test.change))
		if got := stateOf(cp).Record.UID == cp.UID; got != test.begins || !regexp.MustCompile(test.name).MatchString(cp.Spec.ClusterName) {
			t.Errorf("begins: %v, with name %q", got, cp.Spec.ClusterName)
		}
	})
}

// lost is a creation that the portal carries out, with an answer that is lost.
var lost = emulator.Fault{Method: "POST", Path: routeClusters, Count: 1, Cut: true, After: true}

// TestResolvedCreation: the answer to a creation is lost, or the portal does not know its job, and a person sets spec.clusterID, as the message asks
// for. The portal cluster that the object created is deleted with the object, and any other one is kept. The message and the event say so before.
func TestResolvedCreation(t *testing.T) {
	forgotten := emulator.Fault{Method: "POST", Path: routeClusters, Count: 1, Job: emulator.JobForgotten}
	type row struct {
		fault  emulator.Fault
		theirs bool
		event  string
	}
	cases(t, map[string]row{
		"its own":                        {lost, false, "this object created it"},
		"its own, whose job is unknown":  {forgotten, false, "this object created it"},
		"another":                        {lost, true, "this object did not create"},
		"another, while a job is sought": {forgotten, true, "this object did not create"},
	}, func(t *testing.T, test row) {
		e := newEstate(t, emulator.Options{})
		e.strike(test.fault)
		key := e.add("fleet", "prod", nil)
		if o := e.passes(key)[key]; !says(o, infrav1.OutcomeUnknownReason, "later deleted with this object if the portal shows") {
			t.Fatalf("%+v", o)
		}
		id, want := e.portal.Clusters()[0].ID, infrav1.DeletionPolicyDelete
		if test.theirs {
			id, want = e.another(), infrav1.DeletionPolicyRetain
		}
		e.events()
		e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		if o := e.passes(key)[key]; !o.IsDone() || !e.scope(key).Owns() {
			t.Fatalf("%+v, %+v", o, e.record(key))
		}
		if got := strings.Join(e.events(), "\n"); !strings.Contains(got, test.event) || !strings.Contains(got, "deletionPolicy "+string(want)+" applies") {
			t.Errorf("events %s", got)
		}
		if record := e.record(key); (record.Workers == nil) != test.theirs || record.TakenOver != test.theirs || test.theirs && record.Size != operation.SizeUnknown {
			t.Errorf("%+v", record)
		}
		e.delete(key)
		if deleted := e.asked("DELETE") == 1; deleted == test.theirs {
			t.Errorf("%d deletions", e.asked("DELETE"))
		}
	})
}

// TestResolvedTooEarly sets an id that the portal does not know, or that of a cluster that does not run yet. The object waits, and then
// finds out whether the cluster is its own.
func TestResolvedTooEarly(t *testing.T) {
	cases(t, map[string]bool{"a wrong id": true, "still being created": false}, func(t *testing.T, wrong bool) {
		e := newEstate(t, emulator.Options{})
		slow := emulator.Fault{Method: "POST", Path: routeClusters, Count: 1, JobDelay: 10 * time.Minute}
		e.strike(lost, slow)
		key := e.add("fleet", "prod", nil)
		e.passes(key)
		id, want := e.portal.Clusters()[0].ID, infrav1.WaitingForDependencyReason
		if wrong {
			id, want = "cluster-of-a-typo", infrav1.PortalClusterGoneReason
		}
		e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		o := e.passes(key)[key]
		if o.Reason != want || e.scope(key).Owns() {
			t.Fatalf("%+v, %+v", o, e.record(key))
		}
		e.change(key, func(cp *infrav1.PortalControlPlane) {
			conditions.Set(cp, metav1.Condition{Type: infrav1.ProvisionedCondition, Status: metav1.ConditionFalse, Reason: o.Reason})
			cp.Spec.ClusterID = e.portal.Clusters()[0].ID
		})
		time.Sleep(10 * time.Minute)
		if o := e.passes(key)[key]; !o.IsDone() || e.scope(key).DeletionPolicy() != infrav1.DeletionPolicyDelete {
			t.Errorf("%+v, %+v", o, e.record(key))
		}
	})
}

// TestLostCreationIsKnown: a cluster that was found after the answer to its creation was lost has the same record as any other.
func TestLostCreationIsKnown(t *testing.T) {
	create := func(faults ...emulator.Fault) (record operation.Record) {
		synctest.Test(t, func(t *testing.T) {
			e := newEstate(t, emulator.Options{ListClusters: true})
			e.strike(faults...)
			key := e.add("fleet", "prod", nil)
			if o := e.passes(key)[key]; !o.IsDone() || e.asked("POST") != 1 {
				t.Fatalf("%+v, %d creations", o, e.asked("POST"))
			}
			record = e.record(key)
			record.ClusterID, record.Name, record.UserID, record.VPCID = "", "", "", "" // drawn by the portals and the provider
		})
		return record
	}
	answered, found := create(), create(lost)
	if diff := cmp.Diff(answered, found); diff != "" || found.Workers.ServiceOfferingID != "small" {
		t.Error(diff)
	}
}

// TestGuessedName: a user chooses the name that was generated for another user's portal cluster. The object does not get that
// cluster, neither at once, nor when the user allows a creation whose answer is lost.
func TestGuessedName(t *testing.T) {
	manage(t, true, func(e *estate) {
		victim := e.add("victim", "prod", nil)
		e.passes(victim)
		name := e.get(victim).Spec.ClusterName
		e.forget(victim)
		key := e.add("tenant", "prod", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = name })
		if o := e.passes(key)[key]; o.Reason != infrav1.RestoredObjectReason || e.get(key).Spec.ClusterID != "" {
			e.Fatalf("%+v, cluster %q", o, e.get(key).Spec.ClusterID)
		}
		e.strike(emulator.Fault{Method: "POST", Path: routeClusters, Cut: true})
		e.decide(key, infrav1.DecisionRetry.About(string(e.get(key).UID)))
		if o := e.passes(key)[key]; e.get(key).Spec.ClusterID != "" {
			e.Errorf("the tenant has cluster %q, %+v", e.get(key).Spec.ClusterID, o)
		}
	})
}

// TestAnotherPortal: a user changes the portal in the identity while a cluster is being created, and afterwards. Ids of one portal are never used at
// another one, unless a person decides so about the address that the identity names. The operation in flight moves along.
func TestAnotherPortal(t *testing.T) {
	cases(t, map[string][]emulator.Fault{
		"accepted": nil,
		"lost":     {lost, {Method: "GET", Path: routeClusters, Cut: true, Count: 1}},
	}, func(t *testing.T, faults []emulator.Fault) {
		e := newEstate(t, emulator.Options{ListClusters: true})
		e.strike(faults...)
		here, there := e.identity.Portal, e.at("https://elsewhere.example")
		key := e.add("tenant", "prod", nil)
		e.create(key)
		e.identity.Portal = there
		if o := e.passes(key)[key]; o.IsDone() || e.get(key).Spec.ClusterID != "" {
			t.Errorf("at another portal: %+v, cluster %q", o, e.get(key).Spec.ClusterID)
		}
		e.identity.Portal = here
		if o := e.passes(key)[key]; !o.IsDone() || !e.scope(key).Owns() || !e.scope(key).CheckPortal().IsDone() {
			t.Errorf("back at its portal: %+v, %+v", o, e.record(key))
		}
		e.identity.Portal = there
		e.change(key, func(cp *infrav1.PortalControlPlane) {
			put(cp, &operation.Operation{ID: "1", Type: operation.Scale, Target: "2", Portal: stateOf(cp).Record.Portal})
		})
		e.decide(key, infrav1.DecisionTrust.About("wrong.example:443"))
		if o := e.scope(key).CheckPortal(); !says(o, infrav1.AccountChangedReason, "decision=trust:elsewhere.example:443") {
			t.Errorf("later at another portal, after a decision about a third one: %+v", o)
		}
		e.decide(key, infrav1.DecisionTrust.About("elsewhere.example:443"))
		if o := e.scope(key).CheckPortal(); !o.IsDone() {
			t.Errorf("a decision about this address: %+v", o)
		}
		o, cp := e.passes(key)[key], e.get(key)
		record, last := stateOf(cp).Record.Portal, stateOf(cp).Last.Portal
		if !o.IsDone() || record != "elsewhere.example:443" || last != record || cp.Annotations[infrav1.DecisionAnnotation] != "" {
			t.Errorf("trusted: %+v, the record is of %s, and the operation of %s", o, record, last)
		}
	})
}

// TestCreationFollowsItsPortal gives the portal a new URL while it creates a cluster. When a person has said so, the creation goes on there.
func TestCreationFollowsItsPortal(t *testing.T) {
	cases(t, map[string]emulator.Fault{
		"accepted": {JobDelay: 10 * time.Minute}, "lost": {JobDelay: 2 * time.Minute, Cut: true, After: true},
	}, func(t *testing.T, fault emulator.Fault) {
		e := newEstate(t, emulator.Options{ListClusters: true})
		fault.Method, fault.Path, fault.Count = "POST", routeClusters, 1
		e.strike(fault)
		key := e.add("fleet", "prod", nil)
		for range 3 {
			e.create(key)
		}
		e.identity.Portal = e.at("https://elsewhere.example")
		o := e.passes(key)[key]
		if o.Kind != outcome.Stalled || e.get(key).Spec.ClusterID != "" {
			t.Fatalf("at another portal: %+v", o)
		}
		e.decide(key, infrav1.DecisionTrust.About("elsewhere.example:443"))
		for range 15 {
			o = e.passes(key)[key]
		}
		if cp := e.get(key); !o.IsDone() || cp.Spec.ClusterID == "" || e.asked("POST") != 1 || cp.Annotations[infrav1.DecisionAnnotation] != "" {
			t.Errorf("%+v, cluster %q, %d creations", o, cp.Spec.ClusterID, e.asked("POST"))
		}
	})
}

// TestAppliedFromGit applies manifests without spec.clusterID to a new management cluster. No second portal cluster is created if the manifest has
// the id in an annotation, or if the identity holds creations. spec.clusterID is the way out of both.
func TestAppliedFromGit(t *testing.T) {
	type row struct {
		annotated, held bool
		reason          string
	}
	cases(t, map[string]row{
		"the id is in an annotation":  {true, false, infrav1.RestoredObjectReason},
		"the identity holds creation": {false, true, infrav1.CreationsHeldReason},
	}, func(t *testing.T, test row) {
		e := newEstate(t, emulator.Options{})
		id := e.another()
		e.identity.CreationsHeld = test.held
		key := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) {
			if test.annotated {
				metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.ClusterIDAnnotation, id)
			}
		})
		for range 3 {
			if o := e.passes(key)[key]; o.Reason != test.reason || len(e.portal.Clusters()) != 1 {
				t.Fatalf("%d clusters, %+v", len(e.portal.Clusters()), o)
			}
		}
		e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		if o := e.passes(key)[key]; !o.IsDone() || !e.scope(key).Owns() {
			t.Errorf("with spec.clusterID: %+v", o)
		}
	})
}

// TestCreationsAllowed creates the portal cluster when a person allows creations, or removes the annotation.
func TestCreationsAllowed(t *testing.T) {
	manage(t, true, func(e *estate) {
		e.identity.CreationsHeld = true
		key := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.ClusterIDAnnotation, "cluster-gone")
		})
		e.passes(key)
		e.change(key, func(cp *infrav1.PortalControlPlane) { delete(cp.Annotations, infrav1.ClusterIDAnnotation) })
		if o := e.passes(key)[key]; !says(o, infrav1.CreationsHeldReason, "set the key to allowed") || e.asked("POST") != 0 {
			e.Fatalf("%+v, %d creations", o, e.asked("POST"))
		}
		e.identity.CreationsHeld = false
		if o := e.passes(key)[key]; !o.IsDone() || e.asked("POST") != 1 {
			e.Errorf("%+v, %d creations", o, e.asked("POST"))
		}
	})
}
