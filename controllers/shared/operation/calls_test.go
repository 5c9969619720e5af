// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// TestEndedBeforeTheAnswer has a person end a creation whose answer is on its way, by setting the id of another cluster. The late answer does
// not bring the operation back.
func TestEndedBeforeTheAnswer(t *testing.T) {
	for title, fault := range map[string]emulator.Fault{
		"accepted": {Delay: 75 * time.Second}, "busy": {Delay: 75 * time.Second, Code: "RESOURCE_BUSY"}, "refused": {Delay: 75 * time.Second, Code: "QUOTA_EXCEEDED"},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, works[0], emulator.Options{}, fault)
				portal, backoff := f.client(), &outcome.Backoff{}
				if o := f.pass(f.runner(f.object(), portal, backoff)); o.Kind != outcome.Wait || f.operation().JobID != "" {
					t.Fatalf("%+v, %+v", o, f.operation())
				}
				if o := f.runner(f.object(), portal, backoff).Finish(t.Context(), Abandoned, "other"); !o.IsDone() {
					t.Fatalf("%+v", o)
				}
				time.Sleep(2 * time.Minute)
				if op := f.operation(); op == nil || op.Result != Abandoned || op.JobID != "" || f.calls.Open() != 0 {
					t.Errorf("%+v, %d calls open", op, f.calls.Open())
				}
			})
		})
	}
}

// TestLateRefusal has the portal refuse a creation after a minute. The next passes find the refusal, and send nothing before its time.
func TestLateRefusal(t *testing.T) {
	for title, test := range map[string]struct {
		fault  emulator.Fault
		result Result
	}{
		"its content": {emulator.Fault{Delay: time.Minute, Code: "QUOTA_EXCEEDED"}, Refused},
		"busy":        {emulator.Fault{Delay: time.Minute, Code: "RESOURCE_BUSY"}, ""},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, works[0], emulator.Options{}, test.fault)
				portal, backoff := f.client(), &outcome.Backoff{}
				f.pass(f.runner(f.object(), portal, backoff))
				time.Sleep(time.Minute + time.Second)
				op := f.operation()
				if (op == nil) != (test.result == "") || op != nil && op.Result != test.result {
					t.Errorf("%+v", op)
				}
				o := f.pass(f.runner(f.object(), portal, backoff))
				if _, requests := f.jobs(); o.IsDone() || o.RequeueAfter <= 0 || requests != 1 {
					t.Errorf("%d requests: %+v", requests, o)
				}
			})
		})
	}
}

// TestPanicDuringACreation: a panic is the pass's own while the pass waits, and does not end the process later.
func TestPanicDuringACreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, works[0], emulator.Options{})
		start := func(after time.Duration) (caught any) {
			m := f.runner(f.object(), f.client(), &outcome.Backoff{})
			defer func() { caught = recover() }()
			_, err := m.Start(t.Context(), f.next(f.object()), func(context.Context) (cloud.Created, error) {
				time.Sleep(after)
				panic(errors.New("nil map"))
			})
			if err != nil {
				t.Error(err)
			}
			return nil
		}
		if caught := start(time.Second); caught == nil {
			t.Error("the pass does not see it")
		}
		cp := f.object()
		putLast(cp, nil)
		if err := f.store.Update(t.Context(), cp); err != nil {
			t.Fatal(err)
		}
		if caught := start(time.Minute); caught != nil {
			t.Errorf("%v", caught)
		}
		f.calls.Drain()
	})
}
