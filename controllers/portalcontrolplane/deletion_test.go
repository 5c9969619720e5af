// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// TestJobOfADeletionNeverEnds has the portal delete the cluster but leave the job of the deletion running, as some portals do. The object goes
// once the job counts as stuck, and not before, because the portal may still remove nodes. It stays if the portal still knows the cluster, and
// if another portal user asks, to whom the portal may hide it.
func TestJobOfADeletionNeverEnds(t *testing.T) {
	gone := emulator.Fault{Method: "GET", Path: "/kubernetes-clusters/*/config", Code: emulator.CodeResourceNotFound}
	type row struct {
		faults []emulator.Fault
		owner  string
		goes   bool
	}
	cases(t, map[string]row{
		"the cluster is gone":          {[]emulator.Fault{gone}, "", true},
		"a proxy does not know it":     {[]emulator.Fault{{Method: "GET", Path: gone.Path, Status: 404, Body: emulator.BodyHTML}}, "", false},
		"the portal knows it":          {nil, "", false},
		"another user does not see it": {[]emulator.Fault{gone}, "user-of-another", false},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 2, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) {
			r := stateOf(cp).Record
			r.UserID = test.owner
			putRecord(cp, r)
		})
		for _, fault := range test.faults {
			f.strike(fault)
		}
		pass := f.begin("delete", emulator.Fault{Job: emulator.JobStuck})
		if f.liveBy(pass, 25*time.Minute) == nil {
			t.Fatal("the object goes while the portal may be removing nodes")
		}
		s := pass()
		for began := time.Now(); s != nil && time.Since(began) < 2*time.Hour; time.Sleep(10 * time.Second) {
			s = pass()
		}
		if (s == nil) != test.goes || f.deletions() != 1 {
			t.Errorf("the object remains: %t, after %d deletions", s != nil, f.deletions())
		}
	})
}

// TestDeletionDoesNotWaitForAStuckJob: a Cluster whose scale never ends can be deleted.
func TestDeletionDoesNotWaitForAStuckJob(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.liveBy(f.begin("scale", emulator.Fault{Job: emulator.JobStuck, Count: 1}), 20*time.Minute)
		f.leave(departure{owner: "present", noted: "present"})
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
	refusal := emulator.Fault{Method: "DELETE", Path: routeAnyCluster, Code: emulator.CodeOperationNotAllowed, Message: "it is in state Alert", For: 5 * time.Minute}
	cases(t, map[string]bool{"refused until a repair": false, "while the cluster is scaled": true}, func(t *testing.T, scales bool) {
		f := newFixture(t, 2, emulator.Durations{Scale: 2 * time.Minute})
		if scales {
			f.scale(3)
			f.pass()
		}
		f.leave(departure{owner: "earlier", noted: "earlier"})
		f.leaving()
		f.strike(refusal)
		f.change(func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionDelete.About(f.id))
		})
		for began := time.Now(); f.leaving() != nil; time.Sleep(10 * time.Second) {
			if time.Since(began) > time.Hour {
				t.Fatalf("an hour later: %d deletions, decision %q", f.deletions(), f.controlPlane().Annotations[infrav1.DecisionAnnotation])
			}
		}
		if n := len(f.portal.Clusters()); n != 0 {
			t.Errorf("%d clusters are left", n)
		}
	})
}

// TestNamesOfFailedCreationsAreReported: what is left of a failed creation may be billed, so a person has to know its name, however the object
// goes.
func TestNamesOfFailedCreationsAreReported(t *testing.T) {
	failed := func(cp *infrav1.PortalControlPlane) {
		r := stateOf(cp).Record
		r.AbandonedNames = []string{"prod-left1"}
		putRecord(cp, r)
	}
	cases(t, map[string]func(*fixture) departure{
		"the portal deletes the cluster": func(*fixture) departure { return departure{} },
		"the cluster stays":              func(*fixture) departure { return departure{policy: infrav1.DeletionPolicyRetain} },
		"a person has deleted the cluster": func(f *fixture) departure {
			if _, err := f.cloud.DeleteCluster(f.Context(), f.id); err != nil {
				f.Fatal(err)
			}
			time.Sleep(time.Minute)
			return departure{}
		},
		"a person allows a retry, and deletes instead": func(f *fixture) departure {
			f.change(func(cp *infrav1.PortalControlPlane) {
				cp.Spec.ClusterID = ""
				put(cp, &operation.Operation{ID: "lost", Type: operation.Create, Target: "prod-x", Unknown: "cut off", Time: metav1.Now()})
			})
			return departure{}
		},
	}, func(t *testing.T, before func(*fixture) departure) {
		f := newFixture(t, 2, emulator.Durations{})
		f.change(failed)
		d := before(f)
		d.owner, d.noted = "present", "present"
		f.leave(d)
		f.change(func(cp *infrav1.PortalControlPlane) {
			if op := stateOf(cp).Op(); op != nil {
				metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(op.ID))
			}
		})
		s := f.left()
		if all := strings.Join(f.events(), "\n"); s != nil || !strings.Contains(all, "prod-left1") {
			t.Errorf("the object remains: %t; events: %s", s != nil, all)
		}
	})
}

// TestEndAfterTheIdentityHasForgotten interrupts a manager as above, in a namespace that may not use the identity any more. The identity allowed
// only the deletion, and has forgotten the cluster.
func TestEndAfterTheIdentityHasForgotten(t *testing.T) {
	manage(t, false, func(e *estate) {
		e.must(e.store.Create(e.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: controlPlaneCRD}}))
		key := e.addSharing("fleet", "prod", nil)
		if o := e.passes(key)[key]; !o.IsDone() {
			e.Fatalf("%+v", o)
		}
		e.identity.Withdrawn = true
		e.must(e.store.Delete(e.Context(), e.get(key)))
		store, ok := e.store.(client.WithWatch)
		if !ok {
			e.Fatalf("%T", e.store)
		}
		conflicts := 1
		e.manager = newManager(interceptor.NewClient(store, interceptor.Funcs{Patch: func(
			ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption,
		) error {
			if cp, ok := obj.(*infrav1.PortalControlPlane); ok && len(cp.Finalizers) == 0 && conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(infrav1.GroupVersion.WithResource("portalcontrolplanes").GroupResource(), cp.Name, errors.New("a label was set"))
			}
			return c.Patch(ctx, obj, patch, opts...)
		}}), e.recorder)
		for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(10 * time.Second) {
			if err := e.store.Get(e.Context(), key, &infrav1.PortalControlPlane{}); apierrors.IsNotFound(err) {
				return
			}
			s := e.scope(key)
			if _, err := e.manager.reconcileDelete(e.Context(), s); err != nil && !apierrors.IsConflict(err) {
				e.Fatal(err)
			}
			if time.Since(began) > 50*time.Minute {
				e.Fatalf("the object remains: %+v", s.outcomes[clusterv1.DeletingCondition])
			}
		}
	})
}
