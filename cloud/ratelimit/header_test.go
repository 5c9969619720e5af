// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"net/http"
	"testing"
	"time"
)

// TestWaitSeconds checks that past times mean no wait, that invalid values are ignored, and that the maximum is an hour.
func TestWaitSeconds(t *testing.T) {
	for _, test := range []struct {
		seconds float64
		want    time.Duration
		says    bool
	}{
		{-1, 0, true}, {0, 0, true}, {1.5, 1500 * time.Millisecond, true}, {3599, 3599 * time.Second, true},
		{3600, time.Hour, true}, {3601, time.Hour, true}, {math.NaN(), 0, false}, {math.Inf(1), time.Hour, true},
	} {
		if wait, says := waitSeconds(test.seconds); wait != test.want || says != test.says {
			t.Errorf("%v s: %v, %v", test.seconds, wait, says)
		}
	}
	for value, want := range map[string]bool{"0": true, "1": true, "-1": false, "": false, "many": false} {
		if _, ok := headerNumber(http.Header{"X-Test": {value}}, "X-Test"); ok != want {
			t.Errorf("%q is a number: %v", value, ok)
		}
	}
}

// TestResetIsForTheRateLimit checks that X-RateLimit-Reset counts only for refusals by the rate limit.
func TestResetIsForTheRateLimit(t *testing.T) {
	now := time.Unix(1000, 0)
	for limited, want := range map[bool]time.Duration{true: 5 * time.Second, false: 0} {
		wait, says := RetryAfter(http.Header{"X-Ratelimit-Reset": {"1005"}}, now, limited)
		if wait != want || says != limited {
			t.Errorf("refused by the rate limit %t: %v, %t", limited, wait, says)
		}
	}
}
