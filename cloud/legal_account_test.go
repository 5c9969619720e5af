// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

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

// TestObserverPanics checks that mutations go on after a panic of the observer.
func TestObserverPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testConfig(newByPath(nil))
		config.Observe = func(c Call) {
			if c.Class == ratelimit.Mutation {
				panic("observer")
			}
		}
		c := newClient(t, config)
		for range 10 {
			func() {
				defer func() { _ = recover() }()
				reservation, err := c.Reserve("flow", ratelimit.Mutation)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = c.ScaleCluster(WithReservation(t.Context(), reservation), "c", 3)
			}()
		}
		if s := c.Limiter().Stats(); s.Open != 0 || s.InFlight != 0 {
			t.Errorf("%d mutations are open, %d requests in flight", s.Open, s.InFlight)
		}
	})
}

// TestPasswordIsAWordOfTheMessage checks that the error of a refused login is the same for all passwords. If it depended on whether the
// portal's words contain the password, it would reveal a password that is one of them.
func TestPasswordIsAWordOfTheMessage(t *testing.T) {
	config := testConfig(newByPath(map[string]func(*http.Request) *http.Response{
		"/login": always(400, `{"error":{"code":"INVALID_CREDENTIALS","message":"e-mail or password is wrong","field":"password","requestId":"r"}}`)}))
	for _, password := range []string{"wrong", "password", "INVALID", "CREDENTIALS", "another"} {
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
	passing := newByPath(map[string]func(*http.Request) *http.Response{"/login": always(407, ``)})
	connecting := newTransport(nil, newDial(nil, &url.URL{}), false)
	connecting.Proxy = http.ProxyURL(mustURL(t, proxy.URL)) // like HTTPS_PROXY, which is read only once per process
	for _, transport := range []http.RoundTripper{passing, connecting} {
		err := look(t, newClient(t, testConfig(transport)))
		if !IsUnavailable(err) || !strings.Contains(err.Error(), proxyReason) {
			t.Error(err)
		}
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
