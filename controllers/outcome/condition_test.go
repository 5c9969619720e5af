// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

func TestReport(t *testing.T) {
	before := metav1.Condition{Type: "Healthy", Status: metav1.ConditionTrue, Reason: "Fine", Message: "as ever"}
	tests := map[string]struct {
		outcome Outcome
		want    metav1.Condition
	}{
		"done":                  {Outcome{}, metav1.Condition{Status: metav1.ConditionTrue, Reason: "Healthy"}},
		"done with a reason":    {DoneBecause("Fine", "%d of %d", 3, 3), metav1.Condition{Status: metav1.ConditionTrue, Reason: "Fine", Message: "3 of 3"}},
		"wait":                  {WaitFor(time.Second, "Slow", "soon"), metav1.Condition{Status: metav1.ConditionFalse, Reason: "Slow", Message: "soon"}},
		"hold":                  {HoldFor(0, "Wrong", "correct it"), metav1.Condition{Status: metav1.ConditionFalse, Reason: "Wrong", Message: "correct it"}},
		"blocked":               {BlockedBy("First", "see the other"), metav1.Condition{Status: metav1.ConditionUnknown, Reason: "First", Message: "see the other"}},
		"nothing to tell stays": {Come(time.Minute), before},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			obj := &infrav1.PortalCluster{}
			conditions.Set(obj, before)
			Report(obj, "Healthy", test.outcome)
			got := conditions.Get(obj, "Healthy")
			if got == nil || got.Status != test.want.Status || got.Reason != test.want.Reason || got.Message != test.want.Message {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestReportKeepsErrorsOut: an unforeseen error is for the log; nobody knows what its text holds.
func TestReportKeepsErrorsOut(t *testing.T) {
	obj := &infrav1.PortalCluster{}
	Report(obj, "Healthy", Fail(errors.New("token abc")))
	got := conditions.Get(obj, "Healthy")
	if got.Status != metav1.ConditionUnknown || got.Reason != infrav1.InternalErrorReason || got.Message != "please check the manager's log" {
		t.Errorf("got %+v", got)
	}
}

// TestNoConditionBeforeThereIsSomethingToTell: waiting for the rate limit makes no condition either.
func TestNoConditionBeforeThereIsSomethingToTell(t *testing.T) {
	obj := &infrav1.PortalCluster{}
	Report(obj, "Healthy", Come(time.Minute))
	if got := obj.GetConditions(); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}
