// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// TestExpected checks where the expected order of removal comes from.
func TestExpected(t *testing.T) {
	known := func(order claims.Order) claims.ObservedOrder { return claims.ObservedOrder{Order: order, Odds: 20} }
	guess := func(order claims.Order) claims.ObservedOrder { return claims.ObservedOrder{Order: order, Odds: 6} }
	tests := map[string]struct {
		stated infrav1.RemovalOrder
		own    claims.ObservedOrder
		shared claims.Order
		want   claims.Order
	}{
		"nothing is known":             {"", claims.ObservedOrder{}, "", claims.Newest},
		"stated":                       {"Oldest", claims.ObservedOrder{}, "", claims.Oldest},
		"stated, and shown otherwise":  {"Oldest", known(claims.Newest), claims.Random, claims.Oldest},
		"stated as random":             {"Random", known(claims.Newest), claims.Newest, claims.Random},
		"shown by the cluster":         {"", known(claims.Oldest), "", claims.Oldest},
		"shown, and by others too":     {"", known(claims.Oldest), claims.Newest, claims.Oldest},
		"shown to be random":           {"", claims.ObservedOrder{Order: claims.Random}, claims.Newest, claims.Random},
		"shown by others":              {"", claims.ObservedOrder{}, claims.Oldest, claims.Oldest},
		"others, and a guess":          {"", guess(claims.Newest), claims.Oldest, claims.Oldest},
		"others say random, a guess":   {"", guess(claims.Newest), claims.Random, claims.Random},
		"a guess":                      {"", guess(claims.Oldest), "", claims.Oldest},
		"a guess, and others the same": {"", guess(claims.Oldest), claims.Oldest, claims.Oldest},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := passed(func(s *scope) {
				s.controlPlane.Spec.RemovalOrder, s.record.RemovalOrder, s.sharedOrder = test.stated, test.own, test.shared
			})
			if got := s.expectedOrder(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

const oneSite, otherSite = "https://one.example", "https://other.example"

// at is a pass over a new cluster in a namespace, at a portal.
func at(namespace, name, portal string) *scope {
	return passed(func(s *scope) {
		s.controlPlane.Namespace, s.controlPlane.Name, s.identity.BaseURL = namespace, name, portal
		s.last = &operation.Operation{Type: operation.Scale, From: 4, Target: "2", Result: operation.Succeeded, Before: []claims.NodeSnapshot{{UID: "u1"}}}
		operation.PutRecord(s.controlPlane, s.record)
		operation.Put(s.controlPlane, s.last)
	})
}

// orderOf is the order that a new cluster expects.
func (r *Reconciler) orderOf(namespace, portal string) claims.Order {
	s := at(namespace, "new", portal)
	r.shareOrder(s)
	return s.expectedOrder()
}

// TestShareOrder checks which clusters use an order from the record of another one: those of its namespace, at the same portal. A
// tenant can write that record.
func TestShareOrder(t *testing.T) {
	r := &Reconciler{}
	s := at("a", "one", oneSite)
	s.record.RemovalOrder = claims.ObservedOrder{Order: claims.Oldest, Odds: 6}
	r.shareOrder(s)
	if got := r.orderOf("a", oneSite); got != claims.Newest {
		t.Errorf("a guess is shared: %s", got)
	}
	s.record.RemovalOrder.Odds = 20
	r.shareOrder(s)
	for namespace, want := range map[string]claims.Order{"a": claims.Oldest, "b": claims.Newest} {
		if got := r.orderOf(namespace, oneSite); got != want {
			t.Errorf("namespace %s expects %s, want %s", namespace, got, want)
		}
	}
	if got := r.orderOf("a", otherSite); got != claims.Newest {
		t.Errorf("another portal: %s", got)
	}
	s.record.RemovalOrder = claims.ObservedOrder{Order: claims.Random}
	r.shareOrder(s)
	if got := r.orderOf("a", oneSite); got != claims.Random {
		t.Errorf("after the order was found to be none: %s", got)
	}
}

// TestNoteOrder checks the result of a compared scale-down: the record, and an event if another order is expected now. Other
// namespaces do not use it, because a tenant can write the record.
func TestNoteOrder(t *testing.T) {
	tests := map[string]struct {
		before, learned claims.ObservedOrder
		portal          string
		event           string // a word of it
	}{
		"as expected, known now":  {claims.ObservedOrder{Order: claims.Newest, Odds: 6}, claims.ObservedOrder{Order: claims.Newest, Odds: 20}, oneSite, ""},
		"as expected, a guess":    {claims.ObservedOrder{}, claims.ObservedOrder{Order: claims.Newest, Odds: 6}, oneSite, ""},
		"another one, known now":  {claims.ObservedOrder{}, claims.ObservedOrder{Order: claims.Oldest, Odds: 20}, oneSite, "Oldest"},
		"another one, a guess":    {claims.ObservedOrder{}, claims.ObservedOrder{Order: claims.Oldest, Odds: 6}, oneSite, "Oldest"},
		"none":                    {claims.ObservedOrder{Order: claims.Newest, Odds: 20}, claims.ObservedOrder{Order: claims.Random}, oneSite, "spec.removalOrder"},
		"a portal without a name": {claims.ObservedOrder{}, claims.ObservedOrder{Order: claims.Oldest, Odds: 20}, "", "Oldest"},
		"nothing was learned":     {claims.ObservedOrder{Order: claims.Oldest, Odds: 6}, claims.ObservedOrder{Order: claims.Oldest, Odds: 6}, oneSite, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := at("a", "one", test.portal)
			store := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(s.controlPlane).Build()
			recorder := events.NewFakeRecorder(10)
			r := &Reconciler{Client: store, Live: store, Recorder: recorder}
			s.record.RemovalOrder = test.before
			s.plan.OrderObserved, s.plan.ObservedOrder = true, test.learned
			if err := r.recordOrder(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			stored, err := operation.LoadRecord(s.controlPlane)
			if err != nil {
				t.Fatal(err)
			}
			before, _ := s.nodesBefore()
			if diff := cmp.Diff(test.learned, stored.RemovalOrder); diff != "" || before != nil {
				t.Errorf("compared again with %v; record: %s", before, diff)
			}
			if got := r.orderOf("b", test.portal); got != claims.Newest {
				t.Errorf("another namespace expects %s", got)
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

// TestNoteOrderNotObserved checks that nothing is written or shared while no scale-down was compared.
func TestNoteOrderNotObserved(t *testing.T) {
	r, s := &Reconciler{}, at("a", "one", oneSite) // a write would panic: there is no client
	s.plan.ObservedOrder = claims.ObservedOrder{Order: claims.Oldest, Odds: 20}
	err := r.recordOrder(t.Context(), s)
	if before, _ := s.nodesBefore(); err != nil || before == nil {
		t.Errorf("%v, %v", err, before)
	}
	if got := r.orderOf("b", oneSite); got != claims.Newest {
		t.Errorf("another namespace expects %s", got)
	}
}
