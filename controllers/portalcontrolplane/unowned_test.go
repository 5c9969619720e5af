// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// TestConfirmedDeletionOfWhatNobodyOwns: a restored object that the garbage collector deletes before it claims its portal cluster.
func TestConfirmedDeletionOfWhatNobodyOwns(t *testing.T) {
	for title, op := range map[string]*operation.Operation{"idle": nil, "scaling": {ID: "1", Type: operation.Scale, Target: "3", JobID: "job-0"}} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 2, emulator.Durations{Delete: time.Minute})
				h.change(func(cp *infrav1.PortalControlPlane) {
					operation.PutRecord(cp, &operation.Record{UID: "earlier", ClusterID: h.id, Size: 2, Version: before, Workers: &infrav1.WorkerParameters{}})
					operation.Put(cp, op)
				})
				h.leave(departure{owner: "earlier", noted: "earlier"})
				if h.leaving() == nil || h.deletions() != 0 {
					t.Fatal("the deletion is not held")
				}
				h.change(func(cp *infrav1.PortalControlPlane) {
					metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.ConfirmDeletionAnnotation, h.id)
				})
				var s *scope
				for range 40 {
					if s = h.leaving(); s == nil {
						break
					}
					time.Sleep(5 * time.Second)
				}
				if s != nil || h.deletions() != 1 {
					t.Errorf("the object remains: %v %+v; the portal was asked for %d deletions", s != nil, s, h.deletions())
				}
			})
		})
	}
}

// TestDeletionOfEarlierVersion: the records of earlier versions have neither UID nor cluster id.
func TestDeletionOfEarlierVersion(t *testing.T) {
	for title, sent := range map[string]bool{"at rest": false, "with the deletion sent": true} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 2, emulator.Durations{Delete: time.Minute})
				h.change(func(cp *infrav1.PortalControlPlane) {
					operation.PutRecord(cp, &operation.Record{Size: 2, Version: before, Workers: &infrav1.WorkerParameters{}})
					if sent {
						job, err := h.cloud.DeleteCluster(t.Context(), h.id)
						if err != nil {
							t.Fatal(err)
						}
						op := operation.New(operation.Delete, h.id)
						op.JobID = job.ID
						operation.Put(cp, op)
					}
				})
				h.leave(departure{owner: "present", leaves: true})
				passes := 0
				for h.leaving() != nil && passes < 40 {
					passes++
					time.Sleep(5 * time.Second)
				}
				if passes < 10 || passes == 40 || len(h.portal.Clusters()) != 0 || h.deletions() != 1 {
					t.Errorf("%d passes, %d clusters, %d deletions", passes, len(h.portal.Clusters()), h.deletions())
				}
			})
		})
	}
}

// TestDeletionOfACopy: a moved or restored object that is deleted before it claims its portal cluster neither deletes nor forgets it.
func TestDeletionOfACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{})
		h.change(func(cp *infrav1.PortalControlPlane) {
			operation.PutRecord(cp, &operation.Record{UID: "earlier", ClusterID: h.id, Size: 2, Version: before, Workers: &infrav1.WorkerParameters{}})
		})
		h.leave(departure{owner: "present", noted: "earlier", leaves: true})
		var s *scope
		for range 3 {
			if s = h.leaving(); s == nil {
				t.Fatal("the object went, and nobody knows of the portal cluster")
			}
		}
		if h.holds(s, infrav1.DeletionNotConfirmedReason); h.deletions() != 0 {
			t.Errorf("%d deletions", h.deletions())
		}
	})
}

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
		if last := e.passes(second, original); !last[original].IsDone() || !last[second].IsDone() || !e.scope(second).owns() {
			t.Errorf("%+v", last)
		}
	})
}

// TestProtectedWithoutReference: the Cluster's annotation protects an object that core has not given an owner reference yet.
func TestProtectedWithoutReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{})
		h.leave(departure{guards: true})
		s := h.leaving()
		if h.holds(s, infrav1.DeletionProtectedReason); h.deletions() != 0 {
			t.Errorf("%d deletions", h.deletions())
		}
	})
}

// TestDeletionAfterALostCreation: while the object is being deleted, a person sets the id of the portal cluster that its lost
// creation made.
func TestDeletionAfterALostCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{})
		h.change(func(cp *infrav1.PortalControlPlane) {
			op := operation.New(operation.Create, "prod")
			op.Unknown, cp.Spec.ClusterID = "the manager stopped during the call", ""
			operation.PutRecord(cp, &operation.Record{UID: cp.UID, Size: operation.SizeUnknown})
			operation.Put(cp, op)
		})
		h.leave(departure{owner: "present", noted: "present", leaves: true})
		if s := h.leaving(); s.outcomes[clusterv1.DeletingCondition].Reason != infrav1.OutcomeUnknownReason {
			t.Fatalf("%+v", s.outcomes)
		}
		h.events() // of the lost creation
		h.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = h.id })
		s := h.leaving()
		if h.holds(s, infrav1.DeletionNotConfirmedReason); h.deletions() != 0 {
			t.Errorf("%d deletions", h.deletions())
		}
		h.change(func(cp *infrav1.PortalControlPlane) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.ConfirmDeletionAnnotation, h.id)
		})
		for range 10 {
			if s = h.leaving(); s == nil {
				break
			}
			time.Sleep(5 * time.Second)
		}
		if s != nil || h.deletions() != 1 {
			t.Errorf("the object remains: %v; the portal was asked for %d deletions", s != nil, h.deletions())
		}
	})
}
