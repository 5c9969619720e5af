// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestResult(t *testing.T) {
	at := func(d time.Duration) ctrl.Result { return ctrl.Result{RequeueAfter: d, Priority: ptr.To(pollPriority)} }
	tests := map[string]struct {
		outcomes []Outcome
		want     ctrl.Result
	}{
		"nothing":                       {nil, ctrl.Result{}},
		"done":                          {[]Outcome{{}}, ctrl.Result{}},
		"an event will tell":            {[]Outcome{WaitFor(0, "R", "m"), StallFor(0, "R", "m"), BlockedBy("R", "m")}, ctrl.Result{}},
		"the soonest":                   {[]Outcome{WaitFor(time.Minute, "R", "m"), StallFor(9*time.Second, "R", "m"), RetryAfter(30 * time.Second)}, at(9 * time.Second)},
		"no event between two times":    {[]Outcome{WaitFor(time.Minute, "R", "m"), WaitFor(0, "R", "m")}, at(time.Minute)},
		"at once is a second":           {[]Outcome{RetryAfter(0)}, at(time.Second)},
		"done may want to be looked at": {[]Outcome{{Kind: Done, RequeueAfter: time.Minute}}, at(time.Minute)},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Result(test.outcomes...)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if pollPriority > -100 {
		t.Errorf("polls at %d starve the initial list, which controller-runtime queues at -100", pollPriority)
	}
}

func TestFirstError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "portalcontrolplanes"}, "a", errors.New("changed"))
	odd := errors.New("odd")
	tests := map[string]struct {
		outcomes []Outcome
		want     error
	}{
		"none":             {[]Outcome{{}, WaitFor(0, "R", "m"), StallFor(0, "R", "m")}, nil},
		"wrapped conflict": {[]Outcome{Fail(fmt.Errorf("store: %w", conflict))}, nil},
		"the first":        {[]Outcome{{}, Fail(conflict), Fail(odd), Fail(errors.New("other"))}, odd},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := FirstError(test.outcomes...); !errors.Is(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestWords: only outcomes with a message get a prefix.
func TestWords(t *testing.T) {
	hold := StallFor(time.Minute, "R", "no %s", "room").Prefix("create %q", "a")
	if diff := cmp.Diff(Outcome{Kind: Stalled, Reason: "R", Message: `create "a": no room`, RequeueAfter: time.Minute}, hold); diff != "" {
		t.Error(diff)
	}
	if got := RetryAfter(time.Minute).Prefix("words"); got.Reason != "" || got.Message != "" {
		t.Errorf("an outcome without anything to tell says %+v", got)
	}
	if got := WaitFor(0, "R", "m").In(time.Minute).RequeueAfter; got != time.Minute {
		t.Errorf("in a minute is %s", got)
	}
}
