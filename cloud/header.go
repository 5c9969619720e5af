// SPDX-License-Identifier: Apache-2.0

package cloud

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

// retryAfter is how long the portal asks to wait: Retry-After in seconds or as a date, else, if the rate limit refused,
// X-RateLimit-Reset (Unix seconds), which says nothing about a resource that is busy. Times of the portal's clock are
// taken against its Date header, so that ours may be wrong. Only refusals mean it.
func retryAfter(h http.Header, now time.Time, limited bool) (time.Duration, bool) {
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

// waitSeconds bounds a wait to what is sensible; past times mean now.
func waitSeconds(seconds float64) (time.Duration, bool) {
	if math.IsNaN(seconds) {
		return 0, false
	}
	return time.Duration(min(max(seconds, 0), maxGateClosed.Seconds()) * float64(time.Second)), true
}
