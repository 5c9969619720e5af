// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatProvesAToken checks which answers show that the portal takes the token: after those the pauses between refused
// logins begin at their shortest again. A server error and a 429 may be sent before the token is looked at, and what an
// undocumented endpoint does with tokens is not known.
func TestWhatProvesAToken(t *testing.T) {
	versions := func(c *Client, t *testing.T) { _ = look(t, c) }
	find := func(c *Client, t *testing.T) { _, _ = c.FindClusters(t.Context(), "n") }
	for name, test := range map[string]struct {
		status int
		call   func(*Client, *testing.T)
		want   time.Duration
	}{
		"success":            {200, versions, refusalBackoff},
		"not found":          {404, versions, refusalBackoff},
		"server error":       {500, versions, 2 * refusalBackoff},
		"unavailable":        {503, versions, 2 * refusalBackoff},
		"rate limited":       {429, versions, 2 * refusalBackoff},
		"undocumented":       {200, find, 2 * refusalBackoff},
		"undocumented, none": {404, find, 2 * refusalBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status := 401
				c := newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
					return answersWith(status, `{"kubernetesClusters":[]}`)(r)
				})))
				if pause := pauseAfterRefusal(t, c); pause != refusalBackoff {
					t.Fatalf("the first pause is %v", pause)
				}
				status = test.status
				test.call(c, t)
				time.Sleep(5 * time.Second) // a gate opens again
				status = 401
				if pause := pauseAfterRefusal(t, c); pause != test.want {
					t.Errorf("the next pause is %v, want %v", pause, test.want)
				}
			})
		})
	}
}

// pauseAfterRefusal has a fresh token refused, and waits until the next login is allowed.
func pauseAfterRefusal(t *testing.T, c *Client) time.Duration {
	t.Helper()
	err := look(t, c)
	at, ok := RetryAt(err)
	if !IsUnauthorized(err) || !ok {
		t.Fatalf("%q, retry at %v: %v", which(t, err), at, err)
	}
	pause := time.Until(at)
	time.Sleep(pause)
	return pause
}
