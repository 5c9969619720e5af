// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
)

// TestExpected checks which order of removal status reports, and why.
func TestExpected(t *testing.T) {
	tests := map[string]struct {
		set      infrav1.RemovalOrder
		observed claims.Order
		want     infrav1.RemovalOrderStatus
	}{
		"nothing is known":         {"", "", infrav1.RemovalOrderStatus{Order: "Newest", Source: "Assumed"}},
		"set":                      {"Oldest", "", infrav1.RemovalOrderStatus{Order: "Oldest", Source: "Set"}},
		"set, and shown otherwise": {"Oldest", claims.Newest, infrav1.RemovalOrderStatus{Order: "Oldest", Source: "Set"}},
		"set as random":            {"Random", claims.Newest, infrav1.RemovalOrderStatus{Order: "Random", Source: "Set"}},
		"set, and shown as random": {"Newest", claims.Random, infrav1.RemovalOrderStatus{Order: "Newest", Source: "Set"}},
		"shown":                    {"", claims.Oldest, infrav1.RemovalOrderStatus{Order: "Oldest", Source: "Observed"}},
		"shown as random":          {"", claims.Random, infrav1.RemovalOrderStatus{Order: "Random", Source: "Observed"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := passed(func(s *scope) {
				s.ControlPlane.Spec.RemovalOrder, s.Record.RemovalOrder.Order = test.set, test.observed
			})
			s.updateStatus()
			if diff := cmp.Diff(test.want, s.ControlPlane.Status.RemovalOrder); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUnknownOrder scales down at portals whose order of removal the provider does not know. The first request removes one worker.
// If that shows an order, the next request removes all others. Workers that joined in the same second may all be of one batch: the list of
// instances shows how the portal goes on there, not in which order it removes batches.
func TestUnknownOrder(t *testing.T) {
	observed := func(order infrav1.RemovalOrder) infrav1.RemovalOrderStatus {
		return infrav1.RemovalOrderStatus{Order: order, Source: infrav1.RemovalOrderObserved}
	}
	assumed := func(order infrav1.RemovalOrder) infrav1.RemovalOrderStatus {
		return infrav1.RemovalOrderStatus{Order: order, Source: infrav1.RemovalOrderAssumed}
	}
	type row struct {
		order    emulator.VictimOrder
		set      infrav1.RemovalOrder
		together bool // the workers joined in the same second
		to       int
		requests string
		want     infrav1.RemovalOrderStatus
		event    bool
	}
	cases(t, map[string]row{
		"as assumed":             {emulator.VictimsNewest, "", false, 2, "5 → 4, 4 → 2", observed("Newest"), false},
		"another one":            {emulator.VictimsOldest, "", false, 2, "5 → 4, 4 → 2", observed("Oldest"), true},
		"one worker is too many": {emulator.VictimsOldest, "", false, 4, "5 → 4", observed("Oldest"), true},
		"one batch":              {emulator.VictimsOldest, "", true, 2, "5 → 4, 4 → 3, 3 → 2", assumed("Oldest"), true},
		"no worker stays":        {emulator.VictimsOldest, "", false, 0, "5 → 0", assumed("Newest"), false},
		"the user has set it":    {emulator.VictimsOldest, "Oldest", false, 2, "5 → 2", infrav1.RemovalOrderStatus{Order: "Oldest", Source: infrav1.RemovalOrderSet}, false},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 1, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = test.set })
		f.must(f.portal.SetVictimOrder(test.order))
		for size := 2; size <= 5; size++ {
			f.settleAt(size)
		}
		if test.together {
			f.rejuvenate()
		}
		up := len(emulator.ClusterChanges(f.portal.RequestLog()))
		s := f.settleAt(test.to)
		requests := strings.ReplaceAll(strings.Join(emulator.ClusterChanges(f.portal.RequestLog())[up:], ", "), "Scaling size ", "")
		if diff := cmp.Diff(test.requests, requests); diff != "" {
			t.Errorf("requests: %s", diff)
		}
		if diff := cmp.Diff(test.want, s.ControlPlane.Status.RemovalOrder); diff != "" {
			t.Error(diff)
		}
		if got := strings.Contains(strings.Join(f.events(), "\n"), infrav1.EventUnexpectedWorkersRemoved); got != test.event {
			t.Errorf("event: %t, want %t", got, test.event)
		}
	})
}

// TestUndrainedRemovalIsReported scales down at a portal that removes the oldest worker, where the user has set Newest. Each removal is one
// Warning on both objects, also if the job fails after it.
func TestUndrainedRemovalIsReported(t *testing.T) {
	cases(t, map[string]emulator.Fault{
		"the job succeeds": {},
		"the job fails":    {Path: routeScale, Job: emulator.JobFailsLate, Scale: emulator.ScaleDown},
	}, func(t *testing.T, fault emulator.Fault) {
		f := newFixture(t, 1, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = infrav1.RemovalOrderNewest })
		f.must(f.portal.SetVictimOrder(emulator.VictimsOldest))
		for size := 1; size <= 3; size++ {
			f.settleAt(size)
		}
		if fault.Job != "" {
			f.strike(fault)
		}
		for size := 2; size > 0; size-- {
			f.events()
			f.settleAt(size)
			warnings := 0
			for _, event := range f.events() {
				if strings.Contains(event, "Warning "+infrav1.EventUndrainedWorkersRemoved) && strings.Contains(event, f.nodes.undrained[len(f.nodes.undrained)-1]) {
					warnings++
				}
			}
			if warnings != 2 {
				t.Errorf("%d Warnings of the removal at %d workers, want one on the control plane and one on the Cluster", warnings, size)
			}
		}
		if len(f.nodes.undrained) != 2 {
			t.Errorf("the portal removed %s undrained, want two", f.nodes.undrained)
		}
	})
}

// rejuvenate makes all Nodes as old as each other.
func (f *fixture) rejuvenate() {
	f.Helper()
	all := &corev1.NodeList{}
	f.must(f.nodes.List(f.Context(), all))
	for i := range all.Items {
		all.Items[i].CreationTimestamp = metav1.Now()
		f.must(f.nodes.Update(f.Context(), &all.Items[i]))
	}
}

// settleAt sets the replicas, and waits until the portal runs as many workers and the last scale was compared.
func (f *fixture) settleAt(replicas int) *scope {
	f.Helper()
	f.scale(int32(replicas))
	for range 200 {
		time.Sleep(5 * time.Second)
		s := f.pass()
		if s.Op() == nil && s.Record.Size == replicas && len(s.plan.Present) == replicas && len(s.plan.Writes) == 0 && !s.plan.OrderObserved {
			return s
		}
	}
	f.Fatalf("does not settle at %d workers", replicas)
	return nil
}
