// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestBridge checks that a condition which is True outlives a short time out of reach, and nothing else.
func TestBridge(t *testing.T) {
	away := WaitFor(10*time.Second, "Away", "it is away")
	synctest.Test(t, func(t *testing.T) {
		var b Outage
		expect := func(moment string, isTrue bool, o Outcome, want Kind) {
			t.Helper()
			if got := b.Tolerate(isTrue, "Away", o); got.Kind != want || got.Kind == Retry && (got.RequeueAfter <= 0 || got.RequeueAfter > outageTolerance) {
				t.Errorf("%s: %+v", moment, got)
			}
		}
		expect("not True", false, away, Wait)
		expect("in reach", true, Outcome{}, Done)
		expect("away", true, away, Retry)
		time.Sleep(outageTolerance - time.Second)
		expect("almost a minute", true, away, Retry)
		expect("nothing known", true, RetryAfter(time.Second), Retry)
		expect("an error", true, Fail(errors.New("x")), Failed)
		time.Sleep(time.Second)
		expect("a minute", true, away, Wait)
		expect("in reach again", true, Outcome{}, Done)
		expect("away again", true, away, Retry)
		expect("refused", true, WaitFor(0, "Refused", "no"), Wait)
		expect("held by a person", true, StallFor(0, "Away", "correct it"), Stalled)
		time.Sleep(outageTolerance)
		expect("another time", true, away, Retry)
		var other Outage
		if got := other.Tolerate(true, "Away", away); got.Kind != Retry || got.RequeueAfter != away.RequeueAfter {
			t.Errorf("another one: %+v", got)
		}
	})
}
