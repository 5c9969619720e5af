// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatProvesAToken checks which answers prove that the portal accepts the token, and so reset the pauses between refused logins. A 5xx
// or 429 may be sent before the token is checked, so they prove nothing. Neither does the answer of an undocumented endpoint.
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
				time.Sleep(5 * time.Second) // until the gate is open again
				status = 401
				if pause := pauseAfterRefusal(t, c); pause != test.want {
					t.Errorf("the next pause is %v, want %v", pause, test.want)
				}
			})
		})
	}
}

// pauseAfterRefusal makes the portal refuse a fresh token, and waits until the next login is allowed.
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

// TestDoubtfulChangeIsNotSentAgain has a server answer a change with a status that leaves open whether the change was made, and with the code of a
// refused token. To log in and send it again could make a second cluster.
func TestDoubtfulChangeIsNotSentAgain(t *testing.T) {
	for name := range mutations(nil) {
		for _, status := range []int{404, 500, 502} {
			sent := 0
			c := newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/login" {
					return answersWith(200, "")(r)
				}
				sent++
				return respond(status, `{"error":"INVALID_TOKEN: the token has expired"}`), nil
			})))
			if err := mutations(c)[name](t.Context()); sent != 1 || !IsUnknownOutcome(err) {
				t.Errorf("%s, %d: sent %d times: %v", name, status, sent, err)
			}
		}
	}
}
