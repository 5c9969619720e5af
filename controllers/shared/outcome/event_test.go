// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestWarnStalled: a condition that starts to wait for a person emits one Warning, even if many passes and conditions wait for
// it.
func TestWarnStalled(t *testing.T) {
	stalled := func(reason string) Outcome { return StallFor(0, reason, "do something about %s", reason) }
	type passes []map[string]Outcome
	tests := map[string]struct {
		passes passes
		want   []string
	}{
		"once":                    {passes{{"A": stalled("X")}, {"A": stalled("X")}, {"A": stalled("X")}}, []string{"Warning X Do something about X"}},
		"another reason":          {passes{{"A": stalled("X")}, {"A": stalled("Y")}}, []string{"Warning X Do something about X", "Warning Y Do something about Y"}},
		"again after it was well": {passes{{"A": stalled("X")}, {"A": Outcome{}}, {"A": stalled("X")}}, []string{"Warning X Do something about X", "Warning X Do something about X"}},
		"nothing to tell between": {passes{{"A": stalled("X")}, {"A": RetryAfter(0)}, {"A": stalled("X")}}, []string{"Warning X Do something about X"}},
		"two wait for the same":   {passes{{"A": stalled("X"), "B": stalled("X")}}, []string{"Warning X Do something about X"}},
		"no person has to do anything": {
			passes{{"A": WaitFor(0, "X", ""), "B": BlockedBy("Y", ""), "C": RetryAfter(0), "D": Outcome{}}}, nil,
		},
		"a deletion waits for the same": {
			passes{{"A": stalled("X")}, {clusterv1.DeletingCondition: stalled("X")}, {clusterv1.DeletingCondition: stalled("X")}},
			[]string{"Warning X Do something about X", "Warning " + infrav1.EventDeletionHeld + " Do something about X"},
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			recorder, obj := events.NewFakeRecorder(10), &infrav1.PortalCluster{}
			for _, outcomes := range test.passes {
				before := obj.Status.DeepCopy().Conditions
				for condition, o := range outcomes {
					Report(obj, condition, o)
				}
				WarnStalled(recorder, obj, before, outcomes)
			}
			close(recorder.Events)
			var got []string
			for event := range recorder.Events {
				got = append(got, event)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestWarnStalledIsShown: an outcome that no condition shows emits no event, or each pass would repeat it.
func TestWarnStalledIsShown(t *testing.T) {
	recorder, obj := events.NewFakeRecorder(10), &infrav1.PortalCluster{}
	Set(obj, "A", metav1.ConditionFalse, Outcome{Reason: "Idle"})
	WarnStalled(recorder, obj, obj.Status.Conditions, map[string]Outcome{"A": StallFor(0, "X", "")})
	if len(recorder.Events) > 0 {
		t.Errorf("%q", <-recorder.Events)
	}
}

// TestEventsAreBoundedAndLogged: the API server refuses an event with a longer text, and each event in a namespace that is being deleted.
// The log has the whole text.
func TestEventsAreBoundedAndLogged(t *testing.T) {
	for _, message := range []string{"Short", strings.Repeat("X", eventTextLimit), strings.Repeat("ä", eventTextLimit)} {
		fake, logged := events.NewFakeRecorder(1), ""
		log := funcr.New(func(_, args string) { logged = args }, funcr.Options{})
		Recorder{fake, log}.Eventf(&infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "prod"}}, nil, "Normal", "X", "Delete", "%s", message)
		got := strings.TrimPrefix(<-fake.Events, "Normal X ")
		if len(got) > eventTextLimit || !utf8.ValidString(got) || len(message) <= eventTextLimit && got != message {
			t.Errorf("%d bytes of %d", len(got), len(message))
		}
		if !strings.Contains(logged, message) || !strings.Contains(logged, "prod") {
			t.Errorf("logged %s", logged)
		}
	}
}
