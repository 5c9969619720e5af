// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPersistEndsWithTheTime: the manager's grace period is longer.
func TestPersistEndsWithTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWriterBench(t)
		b.away(time.Hour)
		start := time.Now()
		ctx, cancel := Detach(t.Context(), callTimeout)
		defer cancel()
		err := b.writer.Persist(ctx, b.cached, func() { putLast(b.cached, New(Scale, "5")) })
		if took := time.Since(start); err == nil || took < callTimeout-time.Second || took > callTimeout+time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestPersistOutlivesAnOutage: the result is stored even if the API server is away for a moment or for a minute.
func TestPersistOutlivesAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 3 * time.Second, time.Minute} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newWriterBench(t)
				op := New(Scale, "5")
				if err := b.intend(op); err != nil {
					t.Fatal(err)
				}
				b.away(outage)
				ctx, cancel := Detach(t.Context(), callTimeout)
				defer cancel()
				start := time.Now()
				op.JobID = "job-1"
				if err := b.writer.Persist(ctx, b.cached, func() { putLast(b.cached, op) }); err != nil {
					t.Fatal(err)
				}
				if got := b.operation(); got == nil || got.JobID != "job-1" {
					t.Errorf("stored %+v", got)
				}
				if late := time.Since(start) - outage; late > 7*time.Second {
					t.Errorf("stored %s after the API server was back", late)
				}
			})
		})
	}
}

// TestAFailedWriteLeavesNothingBehind: a change that was not stored is not kept in memory either.
func TestAFailedWriteLeavesNothingBehind(t *testing.T) {
	b := newWriterBench(t)
	b.away(time.Hour)
	if err := b.writer.Change(t.Context(), b.cached, func() { putLast(b.cached, New(Scale, "5")) }); err == nil {
		t.Fatal("no error")
	}
	if op, err := lastOf(b.cached); op != nil || err != nil {
		t.Errorf("the copy in memory holds %+v", op)
	}
}
