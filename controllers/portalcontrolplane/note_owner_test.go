// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestNoteOfTheOwner: an object that names a portal cluster without owning it does not remove the owner's record when it is
// deleted. The owner can still delete the cluster when the namespace may not use the identity any more.
func TestNoteOfTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		owner := e.addSharing("team-a", "prod", nil)
		e.passes(owner)
		double := e.addSharing("team-a", "double", func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = e.get(owner).Spec.ClusterID })
		e.passes(double)
		e.identity.Withdrawn = true
		e.change(double, func(cp *infrav1.PortalControlPlane) { controllerutil.AddFinalizer(cp, infrav1.ControlPlaneFinalizer) })
		if err := e.store.Delete(t.Context(), e.get(double)); err != nil {
			t.Fatal(err)
		}
		s := e.scope(double)
		if _, err := e.manager.reconcileDelete(t.Context(), s); err != nil || controllerutil.ContainsFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) {
			t.Fatalf("the other object did not go: %v, %+v", err, s.outcomes)
		}
		if o := e.delete(owner); !o.IsDone() {
			t.Errorf("the owner: %+v", o)
		}
	})
}
