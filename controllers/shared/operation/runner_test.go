// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

var scaleUp = works[2]

// machine is one pass of a manager that lives on in memory.
func (f *fixture) machine(backoff *outcome.Backoff) (Runner, Send) {
	f.Helper()
	m := f.runner(f.object(), f.client(), backoff)
	return m, f.send(m)
}

// next is a scale to 5 workers.
func next() *Operation {
	op := New(Scale, "5")
	op.From, op.Attempt = 2, "1"
	return op
}

// TestLog checks that each request to the portal leaves one line before and one after it, and nothing secret.
func TestLog(t *testing.T) {
	tests := map[string]struct {
		fault emulator.Fault
		words string
	}{
		"accepted": {emulator.Fault{Delay: time.Second}, `"The portal accepted the request"`},
		"refused":  {emulator.Fault{Code: "QUOTA_EXCEEDED"}, `"Refused"`},
		"lost":     {emulator.Fault{Cut: true}, `"OutcomeUnknown"`},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, scaleUp, emulator.Options{}, test.fault)
				var lines []string
				log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
				m, send := f.machine(&outcome.Backoff{})
				op := next()
				_, _ = m.Start(ctrl.LoggerInto(t.Context(), log), op, send) // its outcome is that of other tests
				if len(lines) != 2 || !strings.Contains(lines[0], "Sending") || !strings.Contains(lines[1], test.words) {
					t.Fatalf("%q", lines)
				}
				for _, line := range lines {
					for _, word := range []string{`"operation"="` + op.ID, `"type"="scale"`, `"target"="5"`, `"portalCluster"="` + f.id} {
						if !strings.Contains(line, word) {
							t.Errorf("%q does not say %s", line, word)
						}
					}
					if strings.Contains(line, "secret") || strings.Contains(line, "Bearer") || strings.Contains(line, "a@portal") {
						t.Errorf("%q", line)
					}
				}
			})
		})
	}
}

// TestNothingIsSentWhileAJobRuns: a second request of any kind but a deletion is refused here.
func TestNothingIsSentWhileAJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, scaleUp, emulator.Options{})
		m, send := f.machine(&outcome.Backoff{})
		if o, _ := m.Start(t.Context(), next(), send); !o.IsDone() || o.RequeueAfter < pollAfterError {
			t.Fatalf("%+v", o)
		}
		first := f.operation()
		if o, _ := m.Start(t.Context(), next(), send); o.Kind != outcome.Failed {
			t.Errorf("%+v", o)
		}
		if _, requests := f.jobs(); requests != 1 || f.operation().ID != first.ID {
			t.Errorf("%d requests, %+v", requests, f.operation())
		}
	})
}

// TestNothingIsSentFromOldData: another writer has changed the object since it was read.
func TestNothingIsSentFromOldData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, scaleUp, emulator.Options{})
		m, send := f.machine(&outcome.Backoff{})
		theirs := f.object()
		metav1.SetMetaDataAnnotation(&theirs.ObjectMeta, "note", "theirs")
		if err := f.store.Update(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		o, _ := m.Start(t.Context(), next(), send)
		if _, requests := f.jobs(); requests != 0 || o.Kind != outcome.Retry || f.operation() != nil {
			t.Errorf("%d requests, %+v, %+v", requests, o, f.operation())
		}
	})
}

// TestBusyLeavesTheRecord: a refusal that is not about the content of the request does not replace the last record. A lost
// operation is still lost, because the portal may be busy with it.
func TestBusyLeavesTheRecord(t *testing.T) {
	for title, last := range map[string]*Operation{
		"none":  nil,
		"ended": {ID: "before", Type: Upgrade, Result: Failed},
		"lost":  {ID: "before", Type: Scale, Target: "4", Unknown: "cut off"},
	} {
		for name, fault := range map[string]emulator.Fault{
			"busy": {Code: "RESOURCE_BUSY"}, "down": {Status: 503}, "not found": {Code: "RESOURCE_NOT_FOUND"}, "forbidden": {Status: 403},
		} {
			t.Run(title+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, scaleUp, emulator.Options{}, fault)
					cp := f.object()
					putLast(cp, last)
					if err := f.store.Update(t.Context(), cp); err != nil {
						t.Fatal(err)
					}
					m, send := f.machine(&outcome.Backoff{})
					o, _ := m.Start(t.Context(), next(), send)
					if got := f.operation(); o.IsDone() || (got == nil) != (last == nil) || got != nil && (got.ID != "before" || got.Unknown != last.Unknown) {
						t.Errorf("%+v, %+v", o, got)
					}
					if blocksMove(f.object()) {
						t.Error("the object cannot be moved, although nothing is under way")
					}
					if again, _ := m.Start(t.Context(), next(), send); again.Reason != o.Reason || again.RequeueAfter <= 0 {
						t.Errorf("sent again at once: %+v", again)
					}
				})
			})
		}
	}
}

// TestAbandon: the annotation ends a scale even if the portal cannot be called, but not a creation.
func TestAbandon(t *testing.T) {
	for _, w := range works {
		t.Run(string(w.Type), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, w, emulator.Options{})
				cp := f.object()
				putLast(cp, &Operation{ID: "x", Type: w.Type, Target: w.target, JobID: "job-1", Time: metav1.Now()})
				metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, infrav1.DecisionAbandon.About("x"))
				if err := f.store.Update(t.Context(), cp); err != nil {
					t.Fatal(err)
				}
				recorder := events.NewFakeRecorder(10)
				m, _ := f.machine(&outcome.Backoff{})
				m.Portal, m.Recorder = nil, recorder
				o := m.Poll(t.Context())
				_, left := f.object().Annotations[infrav1.DecisionAnnotation]
				if got := f.operation(); w.Type.Repeatable() != (got.Result == Abandoned) || w.Type.Repeatable() == left {
					t.Errorf("%+v, annotation left: %v, %+v", got, left, o)
				}
				if w.Type.Repeatable() != (len(recorder.Events) == 1) {
					t.Errorf("%d events", len(recorder.Events))
				}
			})
		})
	}
}

// TestClassOfRequests checks the lane in which a request waits for the account's rate limit: creations wait behind changes of what runs.
func TestClassOfRequests(t *testing.T) {
	for operation, class := range map[Type]ratelimit.Class{
		Create: ratelimit.Creation, CreateNetwork: ratelimit.Creation, CreateVPC: ratelimit.Creation,
		Scale: ratelimit.Mutation, Upgrade: ratelimit.Mutation, Delete: ratelimit.Mutation,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, scaleUp, emulator.Options{})
			m, send := f.machine(&outcome.Backoff{})
			m.Portal.Limiter().Charge(1000, nil)
			o, _ := m.Start(t.Context(), New(operation, "a"), send)
			waiting := m.Portal.Limiter().Stats().Waiting
			if o.Kind != outcome.Retry || waiting[class] != 1 || waiting[ratelimit.Mutation]+waiting[ratelimit.Creation] != 1 {
				t.Errorf("%s: %+v waits as %v", operation, o, waiting)
			}
		})
	}
}

// TestOldCopyLosesNoAnswer has a pass read the object as it was before the portal's answer was stored. It must not call the operation lost: the
// job would never be polled, and a creation would wait for a person.
func TestOldCopyLosesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, scaleUp, emulator.Options{})
		cp, op := f.object(), next()
		putLast(cp, op)
		if err := f.store.Update(t.Context(), cp); err != nil {
			t.Fatal(err)
		}
		old := cp.DeepCopy()
		op.JobID = "job-1"
		putLast(cp, op)
		if err := f.store.Update(t.Context(), cp); err != nil {
			t.Fatal(err)
		}
		m := f.runner(old, f.client(), &outcome.Backoff{})
		if o := m.Poll(t.Context()); o.Kind != outcome.Retry || f.operation().JobID != "job-1" || f.operation().Lost() {
			t.Errorf("%+v, %+v", o, f.operation())
		}
	})
}

// TestJobOfAnotherUser asks for a job with the credentials of another portal user than the cluster's. That the portal does not know the job then
// says nothing.
func TestJobOfAnotherUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, scaleUp, emulator.Options{})
		cp, op := f.object(), next()
		op.JobID = "job-of-another"
		State{Record: Record{Size: 2, UserID: "another"}, Last: op}.Put(cp)
		if err := f.store.Update(t.Context(), cp); err != nil {
			t.Fatal(err)
		}
		m, _ := f.machine(&outcome.Backoff{})
		var o outcome.Outcome
		for range 30 {
			time.Sleep(2 * time.Second)
			o = m.Poll(t.Context())
		}
		if o.Reason != infrav1.AccountChangedReason || f.operation().Lost() {
			t.Errorf("%+v, %+v", o, f.operation())
		}
	})
}
