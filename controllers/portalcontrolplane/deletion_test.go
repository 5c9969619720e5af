// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// owner returns a reference to Cluster prod with the UID, or none for "".
func owner(uid types.UID) []metav1.OwnerReference {
	if uid == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: prod.Name, UID: uid}}
}

// departure is a control plane that is being deleted, and its surroundings. The present Cluster has the UID "present".
type departure struct {
	owner, noted      types.UID // of the owner reference and of the annotation
	without, leaves   bool      // the Cluster does not exist, or is being deleted
	estranged         bool      // the Cluster refers to another control plane
	confirmed         string
	policy            infrav1.DeletionPolicy
	protected, guards bool   // the object is, or the Cluster's annotation protects it
	copied            bool   // it was moved or restored, and has not claimed the portal cluster yet
	removed           string // the CustomResourceDefinition that is being deleted as well
	late              bool   // it is removed after the object was deleted
}

// person deletes the object on purpose. The garbage collector may have done it if the owner was an earlier Cluster.
var person, collector = departure{owner: "present", noted: "present"}, departure{owner: "earlier", noted: "earlier"}

func (d departure) with(change func(*departure)) departure {
	change(&d)
	return d
}

// leave deletes the control plane of the fixture.
func (f *fixture) leave(d departure) {
	f.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name, UID: "present", Finalizers: []string{"a/b"}}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalControlPlane", Name: prod.Name}
	if d.estranged {
		cluster.Spec.ControlPlaneRef.Name = "another"
	}
	if d.guards {
		cluster.Annotations = map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
	}
	if !d.without {
		f.must(f.store.Create(f.Context(), cluster))
	}
	f.change(func(cp *infrav1.PortalControlPlane) {
		cp.Finalizers, cp.OwnerReferences = []string{infrav1.ControlPlaneFinalizer}, owner(d.owner)
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.OwnerAnnotation, string(d.noted))
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionDelete.About(strings.ReplaceAll(d.confirmed, "ID", f.id)))
		cp.Spec.DeletionPolicy = d.policy
		if d.copied {
			putRecord(cp, operation.Record{UID: "earlier", ClusterID: f.id, Size: 2, Version: before, Workers: &infrav1.WorkerParameters{}})
		}
		if d.protected {
			cp.Annotations[infrav1.DeletionProtectionAnnotation] = "true"
		}
	})
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: d.removed}}
	if d.removed != "" && !d.late {
		f.must(f.store.Delete(f.Context(), definition))
	}
	if d.leaves {
		f.must(f.store.Delete(f.Context(), cluster))
	}
	f.must(f.store.Delete(f.Context(), f.controlPlane()))
	time.Sleep(2 * time.Second)
	if d.late {
		f.must(f.store.Delete(f.Context(), definition))
	}
}

// leaving makes one pass over the object that is being deleted. It returns nil when the object is gone.
func (f *fixture) leaving() *scope {
	f.Helper()
	if err := f.store.Get(f.Context(), prod, &infrav1.PortalControlPlane{}); apierrors.IsNotFound(err) {
		return nil
	}
	s := f.scope()
	s.Cluster, s.way = nil, access.Way{}
	before := s.ControlPlane.Status.DeepCopy()
	if _, err := f.manager.reconcileDelete(f.Context(), s); err != nil {
		f.Fatal(err)
	}
	f.must(client.IgnoreNotFound(f.manager.patchStatus(f.Context(), s, before)))
	return s
}

// left makes passes until the object is gone, or a few minutes have passed. It returns nil when the object is gone.
func (f *fixture) left() *scope {
	f.Helper()
	return f.liveBy(f.leaving, 3*time.Minute)
}

// deletions counts the requests to delete a portal cluster.
func (f *fixture) deletions() int { return f.asked(http.MethodDelete) }

// TestDeletionIsMeant checks who deleted the object, as far as owner references show, and what the portal is asked.
func TestDeletionIsMeant(t *testing.T) {
	const held, protected = infrav1.DeletionNotConfirmedReason, infrav1.DeletionProtectedReason
	core, retained := person.with(func(d *departure) { d.leaves = true }), collector.with(func(d *departure) { d.policy = infrav1.DeletionPolicyRetain })
	type row struct {
		departure
		reason string // of the hold, or ""
		stays  bool   // the portal cluster stays although the object goes
	}
	cases(t, map[string]row{
		"a person":                                     {departure: person},
		"a person, without an owner":                   {departure: departure{}},
		"core, with the Cluster":                       {departure: core},
		"core, at once after a restore":                {departure: collector.with(func(d *departure) { d.leaves = true })},
		"collector":                                    {departure: collector, reason: held},
		"collector, no Cluster":                        {departure: collector.with(func(d *departure) { d.without = true }), reason: held},
		"collector, then core corrects the reference":  {departure: departure{owner: "present", noted: "earlier"}, reason: held},
		"collector, the reference was replaced":        {departure: departure{owner: "earlier", noted: "present"}, reason: held},
		"collector, another Cluster's while it leaves": {departure: collector.with(func(d *departure) { d.leaves, d.estranged = true, true }), reason: held},
		"confirmed":                                    {departure: collector.with(func(d *departure) { d.confirmed = "ID" })},
		"confirmed with another id":                    {departure: collector.with(func(d *departure) { d.confirmed = "cluster-other" }), reason: held},
		"collector, Retain":                            {departure: retained, stays: true},
		"a person, protected":                          {departure: person.with(func(d *departure) { d.protected = true }), reason: protected},
		"a person, protected and confirmed":            {departure: person.with(func(d *departure) { d.protected, d.confirmed = true, "ID" }), reason: protected},
		"a person, protected by the Cluster":           {departure: person.with(func(d *departure) { d.guards = true }), reason: protected},
		"protected by the Cluster, without an owner":   {departure: departure{guards: true}, reason: protected},
		"protected, Retain":                            {departure: retained.with(func(d *departure) { d.protected = true }), stays: true},
		"core, a copy":                                 {departure: departure{owner: "present", noted: "earlier", leaves: true, copied: true}, reason: held},
		"its kind is removed":                          {departure: person.with(func(d *departure) { d.removed = controlPlaneCRD }), reason: held},
		"its kind is removed later":                    {departure: person.with(func(d *departure) { d.removed, d.late = controlPlaneCRD, true })},
		"the Clusters' kind is removed":                {departure: core.with(func(d *departure) { d.removed = clusterCRD }), reason: held},
		"its kind is removed while the Cluster leaves": {departure: core.with(func(d *departure) { d.removed = controlPlaneCRD })},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 2, emulator.Durations{})
		f.leave(test.departure)
		s := f.left()
		wanted := test.reason == "" && !test.stays
		if f.deletions() != 0 != wanted || (len(f.portal.Clusters()) == 0) != wanted {
			t.Errorf("the portal was asked for %d deletions, and has %d clusters", f.deletions(), len(f.portal.Clusters()))
		}
		f.holds(s, test.reason)
	})
}

// holds checks what a user sees of a deletion that is held, or that the object is gone.
func (f *fixture) holds(s *scope, reason string) {
	f.Helper()
	if (s != nil) != (reason != "") {
		f.Fatalf("the object remains: %v", s != nil)
	}
	if s == nil {
		return
	}
	o := s.outcomes[clusterv1.DeletingCondition]
	if !stalled(o, reason, f.id, "Retain") {
		f.Errorf("%+v", o)
	}
	way := infrav1.DecisionAnnotation + "=" + infrav1.DecisionDelete.About(f.id)
	if reason == infrav1.DeletionNotConfirmedReason && !strings.HasSuffix(o.Message, way) {
		f.Errorf("the message does not end with %s: %s", way, o.Message)
	}
	others := func(event string) bool { return !strings.HasPrefix(event, "Warning "+infrav1.EventDeletionHeld) }
	if all := slices.DeleteFunc(f.events(), others); len(all) != 1 {
		f.Errorf("not one event: %q", all)
	}
}

// TestHeldDeletionIsConfirmed: both ways out of a hold work after it has started, also for a copy that the garbage collector deletes before
// it claims its portal cluster, while the cluster is scaled.
func TestHeldDeletionIsConfirmed(t *testing.T) {
	cases(t, map[string]bool{"retained": false, "a copy is confirmed": true}, func(t *testing.T, copied bool) {
		f := newFixture(t, 2, emulator.Durations{Delete: time.Minute})
		if copied {
			f.change(func(cp *infrav1.PortalControlPlane) {
				put(cp, &operation.Operation{ID: "1", Type: operation.Scale, Target: "3", JobID: "job-0"})
			})
		}
		f.leave(collector.with(func(d *departure) { d.copied = copied }))
		if f.leaving() == nil || f.deletions() != 0 {
			t.Fatal("the deletion is not held")
		}
		if copied {
			f.decide(infrav1.DecisionDelete.About(f.id))
		} else {
			f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
		}
		if s := f.left(); s != nil || (f.deletions() == 1) != copied {
			t.Errorf("the object remains: %v; the portal was asked for %d deletions", s != nil, f.deletions())
		}
	})
}

// TestHeldCreation deletes the object while the portal creates the cluster. The creation is followed until the id is known, and then held.
func TestHeldCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{Create: time.Minute})
		f.change(func(cp *infrav1.PortalControlPlane) {
			op := operation.New(operation.Create, "another")
			op.JobID, cp.Spec.ClusterID = f.order("another", 1).ID, ""
			put(cp, op)
		})
		f.leave(collector)
		s := f.left()
		if s == nil || s.ControlPlane.Spec.ClusterID == "" || s.ControlPlane.Spec.ClusterID == f.id {
			t.Fatalf("the creation was not followed to its end: %+v", s)
		}
		f.id = s.ControlPlane.Spec.ClusterID
		if f.holds(s, infrav1.DeletionNotConfirmedReason); f.deletions() != 0 || len(f.portal.Clusters()) != 2 {
			t.Errorf("%d deletions, %d clusters", f.deletions(), len(f.portal.Clusters()))
		}
	})
}

// TestHeldMachinesKeepTheirHooks: without the hook core would drain the nodes of a portal cluster that stays.
func TestHeldMachinesKeepTheirHooks(t *testing.T) {
	live(t, 1, func(f *fixture) {
		f.machine("m", func(m *clusterv1.Machine) { m.Annotations = map[string]string{infrav1.PreDrainHook: ""} })
		f.leave(collector)
		f.leaving()
		machine := &clusterv1.Machine{}
		f.must(f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: "m"}, machine))
		if !metav1.HasAnnotation(machine.ObjectMeta, infrav1.PreDrainHook) {
			f.Error("the hook is gone")
		}
	})
}

// TestEnsureOwned: the owner is recorded, unless the owner reference names another Cluster than the cache. The second pass changes nothing.
func TestEnsureOwned(t *testing.T) {
	type row struct {
		owner, cached types.UID // of the owner reference, and of the Cluster in the cache
		noted         types.UID
	}
	cases(t, map[string]row{
		"new":            {owner: "present", cached: "present", noted: "present"},
		"restored":       {owner: "earlier", cached: "present"},
		"without owners": {cached: "present", noted: "present"},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 1, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.OwnerReferences = owner(test.owner) })
		s := f.scope()
		s.Cluster.UID = test.cached
		f.must(f.manager.Ownership.Begin(t.Context(), &s.Pass))
		first := f.controlPlane()
		f.must(f.manager.Ownership.Begin(t.Context(), &s.Pass))
		cp := f.controlPlane()
		if len(cp.Finalizers) != 1 || types.UID(cp.Annotations[infrav1.OwnerAnnotation]) != test.noted || cp.ResourceVersion != first.ResourceVersion {
			t.Errorf("finalizers %v, noted %q", cp.Finalizers, cp.Annotations[infrav1.OwnerAnnotation])
		}
	})
}

// TestJobOfADeletionNeverEnds has the portal delete the cluster but leave the job running, as some portals do. The object goes once the job counts
// as stuck, not before. It stays if the portal still knows the cluster, and if another portal user asks, to whom the portal may hide it.
func TestJobOfADeletionNeverEnds(t *testing.T) {
	type row struct {
		fault emulator.Fault // of the look at the cluster
		owner string
		goes  bool
	}
	cases(t, map[string]row{
		"the cluster is gone":          {emulator.Fault{Code: emulator.CodeResourceNotFound}, "", true},
		"a proxy does not know it":     {emulator.Fault{Status: 404, Body: emulator.BodyHTML}, "", false},
		"the portal knows it":          {emulator.Fault{Delay: time.Second}, "", false},
		"another user does not see it": {emulator.Fault{Code: emulator.CodeResourceNotFound}, "user-of-another", false},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 2, emulator.Durations{})
		f.changeRecord(func(r *operation.Record) { r.UserID = test.owner })
		test.fault.Method, test.fault.Path = "GET", routeConfig
		f.strike(test.fault)
		pass := f.begin("delete", emulator.Fault{Job: emulator.JobStuck})
		if f.liveBy(pass, 25*time.Minute) == nil {
			t.Fatal("the object goes while the portal may be removing nodes")
		}
		if s := f.liveBy(pass, 2*time.Hour); (s == nil) != test.goes || f.deletions() != 1 {
			t.Errorf("the object remains: %t, after %d deletions", s != nil, f.deletions())
		}
	})
}

// TestDeletionDoesNotWaitForAStuckJob: a Cluster whose scale never ends can be deleted.
func TestDeletionDoesNotWaitForAStuckJob(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.liveBy(f.begin("scale", emulator.Fault{Job: emulator.JobStuck, Count: 1}), 20*time.Minute)
		f.leave(person)
		f.liveBy(f.leaving, 5*time.Minute)
		if n := f.deletions(); n != 0 {
			f.Errorf("%d deletions while the scale may still end", n)
		}
		f.liveBy(f.leaving, 20*time.Minute)
		if f.deletions() == 0 {
			f.Error("the portal was not asked to delete the cluster")
		}
	})
}

// TestConfirmationIsKept confirms a held deletion that the portal refuses, or during an operation. The person has decided once, so the
// cluster is billed no longer than the portal takes.
func TestConfirmationIsKept(t *testing.T) {
	cases(t, map[string]bool{"refused until a repair": false, "while the cluster is scaled": true}, func(t *testing.T, scales bool) {
		f := newFixture(t, 2, emulator.Durations{Scale: 2 * time.Minute})
		if scales {
			f.scale(3)
			f.pass()
		}
		f.leave(collector)
		f.leaving()
		f.strike(emulator.Fault{Method: "DELETE", Path: routeCluster, Code: emulator.CodeOperationNotAllowed, Message: "it is in state Alert", For: 5 * time.Minute})
		f.decide(infrav1.DecisionDelete.About(f.id))
		if f.liveBy(f.leaving, time.Hour) != nil || len(f.portal.Clusters()) != 0 {
			t.Errorf("an hour later: %d deletions, %d clusters", f.deletions(), len(f.portal.Clusters()))
		}
	})
}

// TestNamesOfFailedCreationsAreReported: what is left of a failed creation may be billed, so a person has to know its name, however the object
// goes: the portal cluster was deleted at the portal, or a person has allowed another creation and deletes the object instead.
func TestNamesOfFailedCreationsAreReported(t *testing.T) {
	cases(t, map[string]func(*fixture){
		"a person has deleted the cluster": (*fixture).vanish,
		"there is none": func(f *fixture) {
			f.change(func(cp *infrav1.PortalControlPlane) {
				cp.Spec.ClusterID = ""
				put(cp, &operation.Operation{ID: "lost", Type: operation.Create, Target: "prod-x", Unknown: "cut off", Time: metav1.Now()})
			})
		},
	}, func(t *testing.T, prepare func(*fixture)) {
		f := newFixture(t, 2, emulator.Durations{})
		f.changeRecord(func(r *operation.Record) { r.AbandonedNames = []string{"prod-left1"} })
		prepare(f)
		f.leave(person)
		f.decide(infrav1.DecisionRetry.About("lost"))
		s := f.liveBy(f.leaving, time.Minute)
		if all := strings.Join(f.events(), "\n"); s != nil || !strings.Contains(all, "prod-left1") {
			t.Errorf("the object remains: %t; events: %s", s != nil, all)
		}
	})
}
