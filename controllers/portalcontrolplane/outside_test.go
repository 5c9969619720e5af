// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// These tests check what the provider does when a person or an outage comes in between.

// TestScaledOnThePortalsPages adds a worker as a person does on the portal's pages. After two minutes the provider asks the portal once to
// restore the size, or for fewer workers if the user has lowered the replicas. It drains the added worker, which no Machine has ever held.
func TestScaledOnThePortalsPages(t *testing.T) {
	for title, replicas := range map[string]int32{"the size is restored": 2, "the user wants fewer": 1} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 2, emulator.Durations{})
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = "Newest" })
				f.pass()
				if _, err := f.cloud.ScaleCluster(t.Context(), f.id, 3); err != nil {
					t.Fatal(err)
				}
				for len(f.workers()) < 3 {
					f.passes(time.Second, time.Second)
				}
				f.scale(replicas)
				s := f.passes(time.Minute, 5*time.Second)
				if o := s.outcomes[infrav1.WorkersReadyCondition]; o.Reason != infrav1.NodesDifferReason || len(f.answers("scale")) != 1 {
					t.Errorf("nodes may still join or leave: %+v, answers %v", o, f.answers("scale"))
				}
				f.passes(20*time.Minute, 5*time.Second)
				if names, workers := f.cordoned(); len(names) > 0 || workers != int(replicas) || len(f.answers("scale")) != 2 {
					t.Errorf("%d workers, cordoned: %v, answers %v", workers, names, f.answers("scale"))
				}
			})
		})
	}
}

// TestDeletedDuringAnOperation deletes the object while the portal works on the cluster. The deletion waits for the end of the job, and is then
// sent once.
func TestDeletedDuringAnOperation(t *testing.T) {
	for title, begin := range map[string]func(*fixture){
		"scale up":   func(f *fixture) { f.scale(5) },
		"scale down": func(f *fixture) { f.scale(1) },
		"upgrade":    func(f *fixture) { f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after }) },
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 3, emulator.Durations{})
				f.strike(emulator.Fault{ID: "held", Method: "POST", Path: "/kubernetes-clusters/*/*", Job: emulator.JobStuck})
				f.pass()
				begin(f)
				for f.pass().Op() == nil {
					time.Sleep(5 * time.Second)
				}
				f.leave(departure{owner: "present", noted: "present"})
				if s := f.liveBy(f.leaving, time.Minute); s == nil || f.deletions() != 0 {
					t.Errorf("the object is gone: %v; the portal was asked for %d deletions", s == nil, f.deletions())
				}
				f.portal.RemoveFault("held")
				f.liveBy(f.leaving, 15*time.Minute)
				if left := f.portal.Clusters(); len(left) > 0 || f.leaving() != nil || f.deletions() != 1 {
					t.Errorf("%d deletions, the portal has %+v", f.deletions(), left)
				}
			})
		})
	}
}

// TestPortalIsAway scales while the portal answers everything with 503, as in maintenance. A condition reports it. The portal gets a request
// every 5 seconds at most, and afterwards makes the change once.
func TestPortalIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{})
		f.pass()
		f.strike(emulator.Fault{ID: "away", Status: http.StatusServiceUnavailable})
		f.scale(3)
		reported, began := false, time.Now()
		for time.Since(began) < 10*time.Minute {
			reported = reported || f.pass().outcomes[infrav1.WorkersReadyCondition].Reason == infrav1.PortalUnavailableReason
			time.Sleep(time.Second)
		}
		minutes := map[time.Duration]int{}
		for _, e := range f.portal.RequestLog() {
			if e.IsRequest() && e.Status == http.StatusServiceUnavailable {
				minutes[e.Time.Sub(began)/time.Minute]++
			}
		}
		t.Logf("requests in each minute: %v", minutes)
		for minute, n := range minutes {
			if n > 12 {
				t.Errorf("%d requests in minute %d", n, minute)
			}
		}
		if !reported || len(minutes) == 0 {
			t.Errorf("reported: %t, requests in %d minutes", reported, len(minutes))
		}
		f.portal.RemoveFault("away")
		f.passes(20*time.Minute, 5*time.Second)
		if len(f.workers()) != 3 || f.jobs("scale") != 1 {
			t.Errorf("%d workers after %d scales", len(f.workers()), f.jobs("scale"))
		}
	})
}
