// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"testing"
	"time"
)

// TestBound checks the bound for 100 jobs of a minute, which cost a login and 300 requests. Each additional request costs 0.2 s once the
// burst is used up.
func TestBound(t *testing.T) {
	start := time.Unix(0, 0)
	all := func(others ...time.Time) time.Duration {
		ready := Bound(start, 0, slices.Repeat([]time.Duration{time.Minute}, 100), others...)
		return ready[len(ready)-1].Sub(start)
	}
	at := func(after time.Duration, n int) []time.Time { return slices.Repeat([]time.Time{start.Add(after)}, n) }
	// The last creation is the 101st request, so it is sent at 10.2 s. The burst is full again after the first minute, and 200 requests
	// take 30 s from there.
	const alone = 90 * time.Second
	for name, c := range map[string]struct {
		others []time.Time
		want   time.Duration
	}{
		"alone":                      {nil, alone},
		"50 others, among creations": {at(time.Second, 50), alone},
		"50 others, while all wait":  {at(30*time.Second, 50), alone},
		"50 others, among looks":     {at(70*time.Second, 50), alone + 10*time.Second},
		"50 others, afterwards":      {at(5*time.Minute, 50), alone},
	} {
		t.Run(name, func(t *testing.T) {
			if got := all(c.others...); (got - c.want).Abs() > 300*time.Millisecond {
				t.Errorf("all are ready after %s, not %s", got, c.want)
			}
		})
	}
}
