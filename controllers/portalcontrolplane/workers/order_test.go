// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// scaledDown is a pass over a cluster whose last scale-down is to be compared.
func scaledDown() *scene {
	return passed(func(s *scene) {
		s.ControlPlane.Namespace, s.ControlPlane.Name = prod.Namespace, prod.Name
		s.Last = &operation.Operation{Type: operation.Scale, From: 4, Target: "2", Result: operation.Succeeded, Before: []removal.NodeSnapshot{{UID: "u1"}}}
		s.State.Put(s.ControlPlane)
	})
}

// TestNoteOrder checks the result of a compared scale-down: the record, an event if another order is expected now, and a Warning on both
// objects if nodes were removed that were not drained, also if the user has set the order.
func TestNoteOrder(t *testing.T) {
	tests := map[string]struct {
		set             infrav1.RemovalOrder
		before, learned removal.Order
		undrained       []string
		events          []string // a word of each
	}{
		"as assumed":  {"", "", removal.Newest, nil, nil},
		"another one": {"", "", removal.Oldest, nil, []string{"order Oldest"}},
		"none":        {"", removal.Newest, removal.Random, nil, []string{"spec.removalOrder"}},
		"nor before":  {"", "", "", nil, nil},
		"Pods were killed, in the order that is observed": {"", removal.Newest, removal.Newest, []string{"w4"}, []string{"removed w4", "removed w4"}},
		"and in one that the user has set":                {"Newest", "", removal.Oldest, []string{"w1"}, []string{"spec.removalOrder is Newest", "removed w1"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := scaledDown()
			s.ControlPlane.Spec.RemovalOrder = test.set
			store := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(s.ControlPlane).Build()
			recorder := events.NewFakeRecorder(10)
			s.Tools = pass.Tools{Writer: persist.Writer{Client: store, Live: store}, Recorder: recorder}
			s.Record.RemovalOrder.Order = test.before
			s.plan.OrderObserved, s.plan.Evidence.Order, s.plan.Undrained = true, test.learned, test.undrained
			if err := recordOrder(t.Context(), &s.Pass, s.plan); err != nil {
				t.Fatal(err)
			}
			stored := stateOf(s.ControlPlane).Record
			before, _ := nodesBefore(s.Last)
			if stored.RemovalOrder.Order != test.learned || before != nil {
				t.Errorf("compared again with %v; recorded %q", before, stored.RemovalOrder.Order)
			}
			for _, word := range test.events {
				if len(recorder.Events) == 0 {
					t.Fatalf("no event with %q", word)
				}
				if event := <-recorder.Events; !strings.Contains(event, word) {
					t.Errorf("event %q, want one with %q", event, word)
				}
			}
			if len(recorder.Events) > 0 {
				t.Errorf("another event: %s", <-recorder.Events)
			}
		})
	}
}
