// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// TestCopyAdoptsAnother: a copy to which a user gives the id of another portal cluster does not compete with the original,
// although both have the same creation in their annotation.
func TestCopyAdoptsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		original := e.add("fleet", "prod", nil)
		e.passes(original)
		second := e.add("fleet", "second", func(cp *infrav1.PortalControlPlane) {
			copyOf(e.get(original))(cp)
			cp.Spec.ClusterID = "another"
		})
		if last := e.passes(second, original); !last[original].IsDone() || !last[second].IsDone() || !e.scope(second).Owns() {
			t.Errorf("%+v", last)
		}
	})
}

// TestDeletionAfterALostCreation: while the object is being deleted, a person sets the id of the portal cluster that its lost
// creation made.
func TestDeletionAfterALostCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) {
			op := operation.New(operation.Create, "prod")
			op.Unknown, cp.Spec.ClusterID = "the manager stopped during the call", ""
			putRecord(cp, operation.Record{UID: cp.UID, Size: operation.SizeUnknown})
			put(cp, op)
		})
		f.leave(departure{owner: "present", noted: "present", leaves: true})
		if s := f.leaving(); s.outcomes[clusterv1.DeletingCondition].Reason != infrav1.OutcomeUnknownReason {
			t.Fatalf("%+v", s.outcomes)
		}
		f.events() // of the lost creation
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = f.id })
		s := f.leaving()
		if f.holds(s, infrav1.DeletionNotConfirmedReason); f.deletions() != 0 {
			t.Errorf("%d deletions", f.deletions())
		}
		f.change(func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionDelete.About(f.id))
		})
		if s = f.left(); s != nil || f.deletions() != 1 {
			t.Errorf("the object remains: %v; the portal was asked for %d deletions", s != nil, f.deletions())
		}
	})
}
