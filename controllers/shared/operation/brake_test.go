// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// lives has a new manager make passes for that time, or until the work is done.
func (f *fixture) lives(span time.Duration) (last outcome.Outcome) {
	f.Helper()
	portal, backoff := f.client(), &outcome.Backoff{}
	for began := time.Now(); time.Since(began) < span && !f.work.reached(f.object()); time.Sleep(max(last.RequeueAfter, 10*time.Second)) {
		last = f.pass(f.runner(f.object(), portal, backoff))
	}
	return last
}

// TestFailedCreationIsNotRepeatedForever has a portal whose creations end in failed jobs. Each of them may leave something behind that is billed, so
// the provider stops after three, also after a restart. A person who allows one more although the cause remains gets one job, and a request that is
// refused before that does not use the permission up. When the cause is gone, the one that is allowed works.
func TestFailedCreationIsNotRepeatedForever(t *testing.T) {
	for _, w := range works[:2] {
		t.Run(string(w.Type), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, w, emulator.Options{Shapes: emulator.Shapes{NetworkStatus: 202}}, emulator.Fault{Job: emulator.JobFailsLate, JobMessage: "an image is missing"})
				last := f.lives(time.Hour)
				if _, requests := f.jobs(); requests != 1 || last.Reason != infrav1.JobFailedReason || !strings.Contains(last.Message, "an image is missing") {
					t.Errorf("%d requests in the first hour: %s: %s", requests, last.Reason, last.Message)
				}
				for range 3 { // a manager each
					last = f.lives(8 * time.Hour)
				}
				_, requests := f.jobs()
				if requests != 3 || last.Reason != infrav1.OperationStoppedReason || last.Kind != outcome.Stalled {
					t.Errorf("%d requests in a day: %s: %s", requests, last.Reason, last.Message)
				}
				for _, want := range []string{"3 jobs", "an image is missing", Command(f.object(), infrav1.DecisionRetry, f.operation().ID)} {
					if !strings.Contains(last.Message, want) {
						t.Errorf("the message does not contain %q: %s", want, last.Message)
					}
				}
				for _, c := range f.portal.Clusters() {
					if !strings.Contains(last.Message, c.Name) {
						t.Errorf("cluster %s remains at the portal, and the message does not name it: %s", c.Name, last.Message)
					}
				}
				f.allow()
				f.inject(emulator.Fault{ID: "busy", Path: w.route, Code: emulator.CodeResourceBusy, Status: 409})
				if f.lives(time.Hour); !f.decided() {
					t.Error("the permission is gone, and no job was started")
				}
				f.portal.RemoveFault("busy")
				_, before := f.jobs()
				last = f.lives(24 * time.Hour)
				if _, requests := f.jobs(); requests != before+1 || last.Reason != infrav1.OperationStoppedReason || f.decided() {
					t.Errorf("%d requests after %d, decided: %t: %s: %s", requests, before, f.decided(), last.Reason, last.Message)
				}
				f.portal.ClearFaults()
				f.allow()
				if last = f.lives(time.Hour); !w.reached(f.object()) || len(record(f.object()).Failures) > 0 || f.decided() {
					t.Errorf("after a person has allowed it: %+v, %+v", f.operation(), last)
				}
			})
		})
	}
}

// allow sets the annotation that allows one more job.
func (f *fixture) allow() {
	f.Helper()
	cp := f.object()
	id := record(cp).Failures[f.work.Type].ID
	metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionRetry.About(id))
	if err := f.store.Update(f.Context(), cp); err != nil {
		f.Fatal(err)
	}
}

// decided reports whether the object carries a decision of a person.
func (f *fixture) decided() bool {
	return metav1.HasAnnotation(f.object().ObjectMeta, infrav1.DecisionAnnotation)
}

// TestCreationThatItsJobRefuses has a zone without room, and a portal that finds out in the job. The provider goes on, as after a refusal at once,
// but each job leaves a name behind. So it asks every two hours, and keeps the last names.
func TestCreationThatItsJobRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, works[0], emulator.Options{}, emulator.Fault{Job: emulator.JobFailsLate, JobCode: emulator.CodeInsufficientCapacity})
		last := f.lives(24 * time.Hour)
		_, requests := f.jobs()
		if stopped := last.Reason == infrav1.OperationStoppedReason; requests < 10 || requests > 15 || stopped {
			t.Errorf("%d requests in a day: %s: %s", requests, last.Reason, last.Message)
		}
		names := record(f.object()).AbandonedNames
		for _, c := range f.portal.Clusters() {
			if c.State == emulator.ClusterFailed && !slices.Contains(names, c.Name) {
				t.Errorf("cluster %s is not among %v", c.Name, names)
			}
		}
		state := State{}
		for range 1000 {
			state.Last = New(Create, nextName("production-eu-west-00000"))
			state = state.After(Event{Result: Failed})
		}
		if n := len(text(state.Record)); n > 10_000 || state.Record.AbandonedNames[maxAbandonedNames-1] != state.Last.Target {
			t.Errorf("the record has %d bytes and the names %v", n, state.Record.AbandonedNames)
		}
	})
}

// TestCount checks which failures are counted together.
func TestCount(t *testing.T) {
	at := metav1.Now()
	op := func(t Type, target string) *Operation {
		return &Operation{ID: "id of " + target, Type: t, Target: target, Error: "no room"}
	}
	twice := Record{}.Failed(op(Upgrade, "v1.36.3"), at).Failed(op(Upgrade, "v1.36.3"), at)
	if f := twice.Failures[Upgrade]; f.Count != 2 || f.ID != "id of v1.36.3" || f.Error != "no room" {
		t.Errorf("the same version: %+v", f)
	}
	if f := twice.Failed(op(Upgrade, "v1.36.4"), at).Failures[Upgrade]; f.Count != 1 {
		t.Errorf("another version: %+v", f)
	}
	both := twice.Failed(op(Scale, "5"), at)
	if both.Failures[Upgrade].Count != 2 || both.Failures[Scale].Count != 1 {
		t.Errorf("another type: %+v", both.Failures)
	}
	scaled := State{Record: both, Last: op(Scale, "5")}.After(Event{Result: Succeeded}).Record.Failures
	if _, found := scaled[Scale]; found || scaled[Upgrade].Count != 2 {
		t.Errorf("after a success: %+v", scaled)
	}
	if twice.Failures[Scale].Count != 0 || both.Failures[Scale].Count != 1 {
		t.Error("an earlier record has changed")
	}
}
