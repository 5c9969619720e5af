// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// TestAnswers: an answer counts for all who ask the same, for some time. A problem is never remembered.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := NewAnswers()
		var asked atomic.Int32
		mine, other := &cloud.Client{}, &cloud.Client{}
		expect := func(portal *cloud.Client, what string, o Outcome, want int32) {
			t.Helper()
			_, got := Ask(answers, Question{portal, what}, time.Minute, func() (int32, Outcome) {
				defer time.Sleep(time.Second)
				return asked.Add(1), o
			})
			if times := asked.Load(); times != want || got.Kind != o.Kind {
				t.Errorf("%s was asked %d times, want %d: %+v", what, times, want, got)
			}
		}
		for range 20 {
			go expect(mine, "a", Outcome{}, 1)
		}
		time.Sleep(2 * time.Second)
		expect(mine, "a", Outcome{}, 1)
		expect(mine, "b", Outcome{}, 2)
		expect(other, "a", Outcome{}, 3)
		expect(mine, "c", StallFor(0, "Wrong", ""), 4)
		expect(mine, "c", StallFor(0, "Wrong", ""), 5)
		time.Sleep(time.Minute)
		expect(mine, "a", Outcome{}, 6)
	})
}
