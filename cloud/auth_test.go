// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

const refusedToken = `{"error":{"code":"INVALID_TOKEN","message":"expired"}}`

// TestWhatProvesAToken checks which answers prove that the portal accepts the token, and so reset the pauses between refused logins. A 5xx
// or 429 may be sent before the token is checked, so they prove nothing. Neither does the answer of an undocumented endpoint, nor the page
// of another server.
func TestWhatProvesAToken(t *testing.T) {
	versions := func(c *Client, t *testing.T) { _ = look(t, c) }
	find := func(c *Client, t *testing.T) { _, _ = c.FindClusters(t.Context(), "n") }
	for name, test := range map[string]struct {
		status int
		body   string
		call   func(*Client, *testing.T)
		want   time.Duration
	}{
		"success":      {200, `{"versions":[]}`, versions, refusalBackoff},
		"not found":    {404, `{"error":{"code":"RESOURCE_NOT_FOUND"}}`, versions, refusalBackoff},
		"a page":       {404, `<html>`, versions, 2 * refusalBackoff},
		"server error": {500, `{"error":{"code":"BROKEN"}}`, versions, 2 * refusalBackoff},
		"rate limited": {429, ``, versions, 2 * refusalBackoff},
		"undocumented": {200, `{"kubernetesClusters":[]}`, find, 2 * refusalBackoff},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				status, body := 401, refusedToken
				c := newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
					return answersWith(status, body)(r)
				})))
				if pause := pauseAfterRefusal(t, c); pause != refusalBackoff {
					t.Fatalf("the first pause is %v", pause)
				}
				status, body = test.status, test.body
				test.call(c, t)
				time.Sleep(5 * time.Second) // until the gate is open again
				status, body = 401, refusedToken
				if pause := pauseAfterRefusal(t, c); pause != test.want {
					t.Errorf("the next pause is %v, want %v", pause, test.want)
				}
			})
		})
	}
}

// TestPageOfAProxy checks a proxy that puts its own page before every read for ten minutes: of a captive portal, of a filter, of its login.
// The page says nothing about the user, the token or the request. The reads find the portal unavailable, the client does not log in again
// and again, and it goes on as soon as the proxy lets it through.
func TestPageOfAProxy(t *testing.T) {
	for _, status := range []int{302, 401, 403, 404, 418} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, through := newDoorman(), false
				c := newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != "/login" && !through {
						return respond(status, `<html>not this way</html>`), nil
					}
					resp, err := d.RoundTrip(r)
					if resp.StatusCode == 401 {
						resp = respond(401, `<html>the portal itself may send such a page, too</html>`)
					}
					return resp, err
				})))
				for range 600 {
					if err := look(t, c); which(t, err) != "unavailable" {
						t.Fatalf("%q: %v", which(t, err), err)
					}
					if _, err := c.UserID(t.Context()); err != nil {
						t.Fatalf("the login worked, and is refused now: %v", err)
					}
					time.Sleep(time.Second)
				}
				if n := mostInAMinute(d.logins); n > 2 {
					t.Errorf("%d logins in a minute", n)
				}
				through = true
				if err := look(t, c); err != nil {
					t.Errorf("without the proxy: %v", err)
				}
				d.revokeAll()
				time.Sleep(minRefresh)
				if err := look(t, c); err != nil {
					t.Errorf("after the token was revoked: %v", err)
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

// TestDoubtfulChangeIsNotSentAgain checks a refused token with a status that leaves the outcome open: sent again, there could be a second cluster.
func TestDoubtfulChangeIsNotSentAgain(t *testing.T) {
	for name, call := range mutations() {
		for _, status := range []int{404, 500} {
			sent := 0
			_, err := call(t.Context(), newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path != "/login" {
					sent++
				}
				return answersWith(status, `{"error":"INVALID_TOKEN: the token has expired"}`)(r)
			}))))
			if sent != 1 || !IsUnknownOutcome(err) {
				t.Errorf("%s, %d: sent %d times: %v", name, status, sent, err)
			}
		}
	}
}
