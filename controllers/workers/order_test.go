// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// scaledDown is a pass over a cluster whose last scale-down is to be compared.
func scaledDown() *scene {
	return passed(func(s *scene) {
		s.ControlPlane.Namespace, s.ControlPlane.Name = prod.Namespace, prod.Name
		s.Last = &operation.Operation{Type: operation.Scale, From: 4, Target: "2", Result: operation.Succeeded, Before: []claims.NodeSnapshot{{UID: "u1"}}}
		s.State.Put(s.ControlPlane)
	})
}

// TestNoteOrder checks the result of a compared scale-down: the record, and an event if another order is expected now.
func TestNoteOrder(t *testing.T) {
	tests := map[string]struct {
		set             infrav1.RemovalOrder
		before, learned claims.Order
		event           string // a word of it
	}{
		"as observed before":        {"", claims.Newest, claims.Newest, ""},
		"as assumed":                {"", "", claims.Newest, ""},
		"another one":               {"", "", claims.Oldest, "order Oldest"},
		"none":                      {"", claims.Newest, claims.Random, "spec.removalOrder"},
		"nothing was learned":       {"", claims.Oldest, claims.Oldest, ""},
		"nor before":                {"", "", "", ""},
		"another one than was set":  {"Newest", "", claims.Oldest, ""},
		"none, although one is set": {"Newest", claims.Oldest, claims.Random, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := scaledDown()
			s.ControlPlane.Spec.RemovalOrder = test.set
			store := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(s.ControlPlane).Build()
			recorder := events.NewFakeRecorder(10)
			s.Tools = pass.Tools{Writer: operation.Writer{Client: store, Live: store}, Recorder: recorder}
			s.Record.RemovalOrder.Order = test.before
			s.plan.OrderObserved, s.plan.ObservedOrder = true, test.learned
			if err := recordOrder(t.Context(), &s.Pass, s.plan); err != nil {
				t.Fatal(err)
			}
			stored := stateOf(s.ControlPlane).Record
			before, _ := nodesBefore(s.Last)
			if stored.RemovalOrder.Order != test.learned || before != nil {
				t.Errorf("compared again with %v; recorded %q", before, stored.RemovalOrder.Order)
			}
			event := ""
			if len(recorder.Events) > 0 {
				event = <-recorder.Events
			}
			if !strings.Contains(event, test.event) || (event == "") != (test.event == "") || len(recorder.Events) > 0 {
				t.Errorf("event %q, want one with %q", event, test.event)
			}
		})
	}
}

// TestNoteOrderNotObserved checks that nothing is written while no scale-down was compared.
func TestNoteOrderNotObserved(t *testing.T) {
	s := scaledDown() // a write would panic: there is no client
	s.plan.ObservedOrder = claims.Oldest
	err := recordOrder(t.Context(), &s.Pass, s.plan)
	if before, _ := nodesBefore(s.Last); err != nil || before == nil {
		t.Errorf("%v, %v", err, before)
	}
}
