// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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

// TestLoginAnsweredByNoPortal checks that a login answer that cannot come from a portal does not count as wrong credentials and does not
// cause their backoff. test/faulttest: TestMatrix has more of them.
func TestLoginAnsweredByNoPortal(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
	}{{200, `{"token":"a\nb"}`}, {399, `{"error":{"code":"BAD_CREDENTIALS"}}`}, {405, `{"error":{"code":"OPERATION_NOT_ALLOWED"}}`}} {
		synctest.Test(t, func(t *testing.T) {
			login := always(test.status, test.body)
			c := newClient(t, testConfig(newByPath(map[string]func(*http.Request) *http.Response{
				"/login": func(r *http.Request) *http.Response { return login(r) },
			})))
			for range 10 {
				if err := look(t, c); !IsNotPortal(err) {
					t.Errorf("%d %s: %v", test.status, test.body, err)
				}
				time.Sleep(30 * time.Second)
			}
			login = always(200, `{"token":"t","user":{"id":"u"}}`)
			time.Sleep(refusalBackoff + time.Second) // the pause never gets longer
			if err := look(t, c); err != nil {
				t.Errorf("%d %s: the client backs off: %v", test.status, test.body, err)
			}
		})
	}
}

// TestClockSetBack checks that a clock that is set back delays a second factor by no more than one code.
func TestClockSetBack(t *testing.T) {
	f := &secondFactor{seed: conceal(testSeed)}
	now := time.Now()
	f.used = now.Truncate(otpStep)
	if err := f.ready(now); !IsRateLimited(err) {
		t.Errorf("the same code twice: %v", err)
	}
	if err := f.ready(now.Add(-time.Hour)); err != nil {
		t.Errorf("after the clock was set back: %v", err)
	}
}

// TestPasswordIsAWordOfTheMessage checks that the error of a refused login is the same for all passwords, or it would reveal one of its own words.
func TestPasswordIsAWordOfTheMessage(t *testing.T) {
	config := testConfig(newByPath(map[string]func(*http.Request) *http.Response{
		"/login": always(400, `{"error":{"code":"INVALID_CREDENTIALS","message":"e-mail or password is wrong","field":"password","requestId":"r"}}`)}))
	for _, password := range []string{"wrong", "password", "CREDENTIALS"} {
		config.Password = password
		err := look(t, newClient(t, config))
		if !IsUnauthorized(err) || err.Error() != "POST /login: INVALID_CREDENTIALS: Bad Request" {
			t.Errorf("%q: %v", password, err)
		}
	}
	config.Password = "LIMIT"
	config.Transport = newByPath(map[string]func(*http.Request) *http.Response{
		"/login": always(429, `{"error":{"code":"RATE_LIMITED","message":"m","requestId":"r"}}`)})
	if err := look(t, newClient(t, config)); !IsRateLimited(err) || !strings.Contains(err.Error(), "RATE_LIMITED") {
		t.Error(err)
	}
}

// TestProxyAsksForCredentials checks that a refusal by a proxy that requires credentials means that the request was not sent.
func TestProxyAsksForCredentials(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) }))
	defer proxy.Close()
	connecting := newTransport(nil, newDial(nil, &url.URL{}), false)
	connecting.Proxy = http.ProxyURL(mustURL(t, proxy.URL)) // like HTTPS_PROXY, which is read only once per process
	if err := look(t, newClient(t, testConfig(connecting))); !IsUnavailable(err) || !strings.Contains(err.Error(), proxyReason) {
		t.Error(err)
	}
	refusing := newByPath(map[string]func(*http.Request) *http.Response{"/kubernetes-clusters": always(407, ``)})
	if _, err := newClient(t, testConfig(refusing)).CreateCluster(t.Context(), CreateClusterRequest{}); !IsUnavailable(err) {
		t.Errorf("a create that the proxy refused: %v", err)
	}
}

func mustURL(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
