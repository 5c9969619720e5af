// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"testing/synctest"
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
// If that shows an order, the next request removes all others. Workers that joined in the same second show none.
func TestUnknownOrder(t *testing.T) {
	observed := func(order infrav1.RemovalOrder) infrav1.RemovalOrderStatus {
		return infrav1.RemovalOrderStatus{Order: order, Source: infrav1.RemovalOrderObserved}
	}
	assumed := infrav1.RemovalOrderStatus{Order: "Newest", Source: infrav1.RemovalOrderAssumed}
	tests := map[string]struct {
		order    emulator.VictimOrder
		set      infrav1.RemovalOrder
		together bool // the workers joined in the same second
		to       int
		requests string
		want     infrav1.RemovalOrderStatus
		event    bool
	}{
		"as assumed":             {emulator.VictimsNewest, "", false, 2, "5 → 4, 4 → 2", observed("Newest"), false},
		"another one":            {emulator.VictimsOldest, "", false, 2, "5 → 4, 4 → 2", observed("Oldest"), true},
		"one worker is too many": {emulator.VictimsOldest, "", false, 4, "5 → 4", observed("Oldest"), true},
		"nothing shows it":       {emulator.VictimsOldest, "", true, 2, "5 → 4, 4 → 3, 3 → 2", assumed, false},
		"no worker stays":        {emulator.VictimsOldest, "", false, 0, "5 → 0", assumed, false},
		"the user has set it":    {emulator.VictimsOldest, "Oldest", false, 2, "5 → 2", infrav1.RemovalOrderStatus{Order: "Oldest", Source: infrav1.RemovalOrderSet}, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 1, emulator.Durations{})
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = test.set })
				if err := f.portal.SetVictimOrder(test.order); err != nil {
					t.Fatal(err)
				}
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
		})
	}
}

// rejuvenate makes all Nodes as old as each other.
func (f *fixture) rejuvenate() {
	f.Helper()
	all := &corev1.NodeList{}
	if err := f.nodes.List(f.Context(), all); err != nil {
		f.Fatal(err)
	}
	for i := range all.Items {
		all.Items[i].CreationTimestamp = metav1.Now()
		if err := f.nodes.Update(f.Context(), &all.Items[i]); err != nil {
			f.Fatal(err)
		}
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
