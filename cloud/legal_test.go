// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// testJWT returns a string in the shape of a JWT.
func testJWT(t *testing.T, subject string) string {
	t.Helper()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.RegisteredClaims{Subject: subject}).SignedString([]byte("portal"))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// byPath answers each path with a function. /login succeeds unless it has a function.
type byPath struct {
	calls map[string]int
	serve map[string]func(*http.Request) *http.Response
}

func newByPath(serve map[string]func(*http.Request) *http.Response) *byPath {
	return &byPath{calls: map[string]int{}, serve: serve}
}

func (p *byPath) RoundTrip(r *http.Request) (*http.Response, error) {
	p.calls[r.URL.Path]++
	if serve := p.serve[r.URL.Path]; serve != nil {
		return serve(r), nil
	}
	if r.URL.Path == "/login" {
		return respond(200, fmt.Sprintf(`{"token":"token-%d","user":{"id":"user-1"},"mfaRequired":false}`, p.calls["/login"])), nil
	}
	return respond(200, `{"versions":[],"kubernetesClusters":[]}`), nil
}

func always(status int, body string) func(*http.Request) *http.Response {
	return func(*http.Request) *http.Response { return respond(status, body) }
}

// TestUndocumentedQuestionWithAnExpiredToken checks that a token that a documented endpoint refuses, too, is replaced, and that the
// undocumented request is sent with the new one.
func TestUndocumentedQuestionWithAnExpiredToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		asked := 0
		c := newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := d.RoundTrip(r)
			if r.URL.Path == "/kubernetes-clusters" && resp.StatusCode == 200 {
				asked++
				return respond(200, `{"kubernetesClusters":[{"id":"c","name":"n"}]}`), nil
			}
			return resp, err
		})))
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		d.revokeAll()
		found, err := c.FindClusters(t.Context(), "n")
		if err != nil || len(found) != 1 || asked != 1 || len(d.logins) != 2 {
			t.Errorf("%v, %v: asked %d times after %d logins", found, err, asked, len(d.logins))
		}
		d.revokeAll()
		d.password = "another"
		if _, err := c.FindClusters(t.Context(), "n"); !IsUnauthorized(err) {
			t.Errorf("with an outdated password: %v", err)
		}
	})
}

// TestVerifyWithoutToken checks that an answer to verify-otp without a token says nothing about the code or the credentials.
func TestVerifyWithoutToken(t *testing.T) {
	for _, body := range []string{
		`{}`, `[]`, `<html>`, ``, `{"token":""}`, `{"token":"a b"}`, `{"a":{"token":"1"},"b":{"token":"2"}}`,
		`{"a":"` + testJWT(t, "a") + `","b":"` + testJWT(t, "b") + `"}`,
	} {
		config := testConfig(newByPath(map[string]func(*http.Request) *http.Response{
			"/login":          always(200, `{"token":"pre","user":{"id":"u"},"mfaRequired":true}`),
			"/mfa/verify-otp": always(200, body),
		}))
		config.TOTPSeed = testSeed
		if err := look(t, newClient(t, config)); !IsNotPortal(err) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestLoginAnsweredByNoPortal checks that a login answer that cannot come from a portal does not count as wrong credentials and does not
// cause their backoff.
func TestLoginAnsweredByNoPortal(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
	}{
		{200, `<html>`}, {200, ``}, {200, `{}`}, {200, `{"token":""}`}, {201, `[]`}, {204, ``}, {301, ``}, {302, `<html>`}, {307, ``}, {404, ``},
		{404, `{"error":{"code":"RESOURCE_NOT_FOUND","message":"no such endpoint","requestId":"r"}}`}, {405, ``}, {400, `<html>`}, {410, ``},
		{405, `{"error":{"code":"OPERATION_NOT_ALLOWED","message":"m","requestId":"r"}}`}, {501, ``},
		{200, `{"token":"a\nb"}`}, {399, `{"error":{"code":"BAD_CREDENTIALS","message":"m","requestId":"r"}}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			healed := false
			portal := newByPath(nil)
			portal.serve = map[string]func(*http.Request) *http.Response{"/login": func(*http.Request) *http.Response {
				if healed {
					return respond(200, `{"token":"t","user":{"id":"u"}}`)
				}
				return respond(test.status, test.body)
			}}
			c := newClient(t, testConfig(portal))
			for range 10 {
				if err := look(t, c); !IsNotPortal(err) {
					t.Errorf("%d %s: %v", test.status, test.body, err)
				}
				time.Sleep(30 * time.Second)
			}
			healed = true
			time.Sleep(refusalBackoff + time.Second) // the pause never gets longer
			if err := look(t, c); err != nil {
				t.Errorf("%d %s: the client backs off: %v", test.status, test.body, err)
			}
		})
	}
}
