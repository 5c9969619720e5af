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
	"github.com/capportal/cluster-api-provider-portal/controllers/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

const (
	clusterCRD      = "clusters.cluster.x-k8s.io"
	controlPlaneCRD = "portalcontrolplanes.infrastructure.cluster.x-k8s.io"
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

// leave deletes the control plane of the fixture.
func (f *fixture) leave(d departure) {
	f.Helper()
	create := func(obj client.Object) {
		f.must(f.store.Create(f.Context(), obj))
	}
	remove := func(obj client.Object) {
		f.must(f.store.Delete(f.Context(), obj))
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name, UID: "present", Finalizers: []string{"a/b"}}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalControlPlane", Name: prod.Name}
	if d.estranged {
		cluster.Spec.ControlPlaneRef.Name = "another"
	}
	if d.guards {
		cluster.Annotations = map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
	}
	if !d.without {
		create(cluster)
	}
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, name := range []string{clusterCRD, controlPlaneCRD} {
		definitions[name] = &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"a/b"}}}
		create(definitions[name])
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
	if d.removed != "" && !d.late {
		remove(definitions[d.removed])
	}
	if d.leaves {
		remove(cluster)
	}
	remove(f.controlPlane())
	time.Sleep(2 * time.Second)
	if d.removed != "" && d.late {
		remove(definitions[d.removed])
	}
}

// leaving makes one pass over the object that is being deleted. It returns nil when the object is gone.
func (f *fixture) leaving() *scope {
	f.Helper()
	cp := &infrav1.PortalControlPlane{}
	if err := f.store.Get(f.Context(), prod, cp); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		f.Fatal(err)
	}
	s := &scope{Pass: pass.Pass{ControlPlane: cp, Identity: identity.Identity{Portal: f.cloud, Version: "1"}}, outcomes: map[string]outcome.Outcome{}}
	s.State, s.Tools = stateOf(s.ControlPlane), f.manager.tools(s)
	before := cp.Status.DeepCopy()
	if _, err := f.manager.reconcileDelete(f.Context(), s); err != nil {
		f.Fatal(err)
	}
	f.must(client.IgnoreNotFound(f.manager.patchStatus(f.Context(), s, before)))
	return s
}

// left makes passes until the object is gone, or a few minutes have passed. It returns nil when the object is gone.
func (f *fixture) left() (s *scope) {
	f.Helper()
	for range 40 {
		if s = f.leaving(); s == nil {
			return nil
		}
		time.Sleep(5 * time.Second)
	}
	return s
}

// deletions counts the requests to delete a portal cluster.
func (f *fixture) deletions() (n int) {
	for _, e := range f.portal.RequestLog() {
		if e.Method == http.MethodDelete {
			n++
		}
	}
	return n
}

// TestDeletionIsMeant checks who deleted the object, as far as owner references show, and what the portal is asked.
func TestDeletionIsMeant(t *testing.T) {
	const held, protected = infrav1.DeletionNotConfirmedReason, infrav1.DeletionProtectedReason
	restored := departure{owner: "earlier", noted: "earlier"}
	with := func(d departure, change func(*departure)) departure { change(&d); return d }
	type row struct {
		departure
		reason string // of the hold, or ""
		stays  bool   // the portal cluster stays although the object goes
	}
	cases(t, map[string]row{
		"a person":                                     {departure: departure{owner: "present", noted: "present"}},
		"a person, without an owner":                   {departure: departure{}},
		"core, with the Cluster":                       {departure: departure{owner: "present", noted: "present", leaves: true}},
		"core, at once after a restore":                {departure: with(restored, func(d *departure) { d.leaves = true })},
		"collector":                                    {departure: restored, reason: held},
		"collector, no Cluster":                        {departure: with(restored, func(d *departure) { d.without = true }), reason: held},
		"collector, then core corrects the reference":  {departure: departure{owner: "present", noted: "earlier"}, reason: held},
		"collector, the reference was replaced":        {departure: departure{owner: "earlier", noted: "present"}, reason: held},
		"collector, never reconciled":                  {departure: departure{owner: "present"}, reason: held},
		"collector, another Cluster's while it leaves": {departure: with(restored, func(d *departure) { d.leaves, d.estranged = true, true }), reason: held},
		"confirmed":                                    {departure: with(restored, func(d *departure) { d.confirmed = "ID" })},
		"confirmed with another id":                    {departure: with(restored, func(d *departure) { d.confirmed = "cluster-other" }), reason: held},
		"confirmed with a part of the id":              {departure: with(restored, func(d *departure) { d.confirmed = "ID0" }), reason: held},
		"collector, Retain":                            {departure: with(restored, func(d *departure) { d.policy = infrav1.DeletionPolicyRetain }), stays: true},
		"a person, Retain":                             {departure: departure{owner: "present", noted: "present", policy: infrav1.DeletionPolicyRetain}, stays: true},
		"a person, protected":                          {departure: departure{owner: "present", noted: "present", protected: true}, reason: protected},
		"a person, protected and confirmed":            {departure: departure{owner: "present", noted: "present", protected: true, confirmed: "ID"}, reason: protected},
		"a person, protected by the Cluster":           {departure: departure{owner: "present", noted: "present", guards: true}, reason: protected},
		"protected by the Cluster, without an owner":   {departure: departure{guards: true}, reason: protected},
		"core, a copy":                                 {departure: departure{owner: "present", noted: "earlier", leaves: true, copied: true}, reason: held},
		"core, protected by the Cluster":               {departure: departure{owner: "present", noted: "present", guards: true, leaves: true}, reason: protected},
		"protected, Retain":                            {departure: departure{owner: "present", noted: "present", protected: true, policy: infrav1.DeletionPolicyRetain}, stays: true},
		"its kind is removed":                          {departure: departure{owner: "present", noted: "present", removed: controlPlaneCRD}, reason: held},
		"its kind is removed later":                    {departure: departure{owner: "present", noted: "present", removed: controlPlaneCRD, late: true}},
		"the Clusters' kind is removed":                {departure: departure{owner: "present", noted: "present", leaves: true, removed: clusterCRD}, reason: held},
		"the Clusters' kind is removed, confirmed":     {departure: departure{owner: "present", noted: "present", leaves: true, removed: clusterCRD, confirmed: "ID"}},
		"its kind is removed while the Cluster leaves": {departure: departure{owner: "present", noted: "present", leaves: true, removed: controlPlaneCRD}},
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
	if o.Kind != outcome.Stalled || o.Reason != reason || !strings.Contains(o.Message, f.id) || !strings.Contains(o.Message, "Retain") {
		f.Errorf("%+v", o)
	}
	if way := infrav1.DecisionAnnotation + "=" + infrav1.DecisionDelete.About(f.id); reason == infrav1.DeletionNotConfirmedReason && !strings.HasSuffix(o.Message, way) {
		f.Errorf("the message does not end with %s: %s", way, o.Message)
	}
	others := func(event string) bool { return !strings.HasPrefix(event, "Warning "+infrav1.EventDeletionHeld) }
	if all := slices.DeleteFunc(f.events(), others); len(all) != 1 {
		f.Errorf("not one event: %q", all)
	}
}

// TestHeldDeletionIsConfirmed: both ways out of a hold work after it has started, also for a copy that the garbage collector deletes before
// it claims its portal cluster.
func TestHeldDeletionIsConfirmed(t *testing.T) {
	confirmed := func(cp *infrav1.PortalControlPlane, id string) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionDelete.About(id))
	}
	retained := func(cp *infrav1.PortalControlPlane, _ string) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain }
	type row struct {
		copied    bool
		last      *operation.Operation
		way       func(*infrav1.PortalControlPlane, string)
		deletions int
	}
	cases(t, map[string]row{
		"confirmed":                  {way: confirmed, deletions: 1},
		"retained":                   {way: retained},
		"a copy":                     {copied: true, way: confirmed, deletions: 1},
		"a copy, while it is scaled": {copied: true, last: &operation.Operation{ID: "1", Type: operation.Scale, Target: "3", JobID: "job-0"}, way: confirmed, deletions: 1},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 2, emulator.Durations{Delete: time.Minute})
		f.change(func(cp *infrav1.PortalControlPlane) { put(cp, test.last) })
		f.leave(departure{owner: "earlier", noted: "earlier", copied: test.copied})
		if f.leaving() == nil || f.deletions() != 0 {
			t.Fatal("the deletion is not held")
		}
		f.change(func(cp *infrav1.PortalControlPlane) { test.way(cp, f.id) })
		if s := f.left(); s != nil || f.deletions() != test.deletions {
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
			op.JobID, cp.Spec.ClusterID = f.createAnother(), ""
			put(cp, op)
		})
		f.leave(departure{owner: "earlier", noted: "earlier"})
		s := f.left()
		if s == nil {
			t.Fatal("the object went while the portal created the cluster")
		}
		if id := s.ControlPlane.Spec.ClusterID; id == "" || id == f.id {
			t.Fatalf("the creation was not followed to its end: id %q", id)
		}
		f.id = s.ControlPlane.Spec.ClusterID
		if f.holds(s, infrav1.DeletionNotConfirmedReason); f.deletions() != 0 || len(f.portal.Clusters()) != 2 {
			t.Errorf("%d deletions, %d clusters", f.deletions(), len(f.portal.Clusters()))
		}
	})
}

// TestHeldMachinesKeepTheirHooks: without the hook core would drain the nodes of a portal cluster that stays.
func TestHeldMachinesKeepTheirHooks(t *testing.T) {
	for title, hooked := range map[string]bool{"earlier": true, "present": false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, 1, emulator.Durations{})
			f.machine("m", func(m *clusterv1.Machine) { m.Annotations = map[string]string{infrav1.PreDrainHook: ""} })
			f.leave(departure{owner: types.UID(title), noted: types.UID(title)})
			f.leaving()
			machine := &clusterv1.Machine{}
			f.must(f.store.Get(t.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: "m"}, machine))
			if _, found := machine.Annotations[infrav1.PreDrainHook]; found != hooked {
				t.Errorf("owner %s: the hook is there: %v", title, found)
			}
		})
	}
}

// TestEnsureOwned: the owner is recorded, unless the owner reference names another Cluster than the cache.
func TestEnsureOwned(t *testing.T) {
	type row struct {
		owner, cached types.UID // of the owner reference, and of the Cluster in the cache
		noted         types.UID
	}
	cases(t, map[string]row{
		"new":            {owner: "present", cached: "present", noted: "present"},
		"restored":       {owner: "earlier", cached: "present"},
		"old cache":      {owner: "present", cached: "earlier"},
		"without owners": {cached: "present", noted: "present"},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 1, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.OwnerReferences = owner(test.owner) })
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name, UID: test.cached}}
		s := &scope{Pass: pass.Pass{ControlPlane: f.controlPlane(), Cluster: cluster}}
		s.Tools = f.manager.tools(s)
		var version string
		for range 2 { // the second pass changes nothing
			f.must(f.manager.Ownership.Begin(t.Context(), &s.Pass))
			if version != "" && f.controlPlane().ResourceVersion != version {
				t.Error("written again")
			}
			version = f.controlPlane().ResourceVersion
		}
		cp := f.controlPlane()
		if len(cp.Finalizers) != 1 || types.UID(cp.Annotations[infrav1.OwnerAnnotation]) != test.noted {
			t.Errorf("finalizers %v, noted %q", cp.Finalizers, cp.Annotations[infrav1.OwnerAnnotation])
		}
		if len(cp.OwnerReferences) > 0 && cp.OwnerReferences[0].UID != test.owner {
			t.Errorf("the owner is %s", cp.OwnerReferences[0].UID)
		}
	})
}
