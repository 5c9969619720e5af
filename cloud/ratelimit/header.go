// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// headerNumber reads a whole number that is not negative.
func headerNumber(h http.Header, name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(h.Get(name)))
	return n, err == nil && n >= 0
}

// RetryAfter returns how long a refusal asks to wait: Retry-After in seconds or as a date. If that is missing and the rate limit
// refused, X-RateLimit-Reset counts (Unix seconds). It does not count for other refusals, such as a busy resource. Times are
// compared with the portal's Date header, so the clock of this machine may be wrong.
func RetryAfter(h http.Header, now time.Time, limited bool) (time.Duration, bool) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return waitSeconds(seconds)
	}
	if at, err := http.ParseTime(value); err == nil {
		return waitSeconds(at.Sub(now).Seconds())
	}
	if reset, ok := headerNumber(h, "X-RateLimit-Reset"); ok && limited {
		return waitSeconds(float64(reset) - float64(now.Unix()))
	}
	return 0, false
}

// waitSeconds bounds a wait to an hour. Times in the past mean now.
func waitSeconds(seconds float64) (time.Duration, bool) {
	if math.IsNaN(seconds) {
		return 0, false
	}
	return time.Duration(min(max(seconds, 0), maxGateClosed.Seconds()) * float64(time.Second)), true
}
