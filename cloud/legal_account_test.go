// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestResetIsOfTheRateLimit checks that X-RateLimit-Reset, which is the end of the rate limit's window, does not affect the RetryAt of a
// busy resource.
func TestResetIsOfTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			status int
			body   string
			named  bool
		}{
			{409, `{"error":{"code":"RESOURCE_BUSY","message":"m","requestId":"r"}}`, false},
			{503, `{"error":{"code":"INSUFFICIENT_CAPACITY","message":"m","requestId":"r"}}`, false},
			{503, ``, false},
			{429, ``, true},
			{403, `{"error":{"code":"RATE_LIMITED","message":"m","requestId":"r"}}`, true},
		} {
			c := newClient(t, testConfig(newByPath(map[string]func(*http.Request) *http.Response{
				"/vpcs": func(*http.Request) *http.Response {
					resp := respond(test.status, test.body)
					resp.Header.Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
					return resp
				},
			})))
			_, err := c.VPCs(t.Context(), "")
			if at, ok := RetryAt(err); ok != test.named || ok && time.Until(at) < 59*time.Minute {
				t.Errorf("%d %s: RetryAt %v, %v", test.status, test.body, at, ok)
			}
		}
	})
}

// tiered is an account with its own tier that sends the documented headers only with a 429.
type tiered struct {
	perMinute, burst, tokens float64
	at                       time.Time
	requests, refused        int
}

func (l *tiered) RoundTrip(r *http.Request) (*http.Response, error) {
	now := time.Now()
	l.tokens = min(l.burst, l.tokens+now.Sub(l.at).Minutes()*l.perMinute)
	l.at = now
	l.requests++
	if l.tokens < 1 {
		l.refused++
		w := httptest.NewRecorder()
		w.Header().Set("X-RateLimit-Limit", fmt.Sprint(l.perMinute))
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"error":{"code":"RATE_LIMITED","message":"m","requestId":"r"}}`)
		return w.Result(), nil
	}
	l.tokens--
	if r.URL.Path == "/login" {
		return respond(200, `{"token":"t","user":{"id":"u"}}`), nil
	}
	return respond(200, `{"versions":[]}`), nil
}

// TestQuietAccount checks accounts that send the headers only with a 429. The client keeps to the documented limit, which costs no refusal,
// even on an account of a higher tier: nothing shows that tier. An account of a lower tier names its limit with its first refusal.
func TestQuietAccount(t *testing.T) {
	for _, test := range []struct {
		perMinute, requests float64
		refused             int
	}{{300, 3000, 0}, {3000, 3000, 0}, {60, 600, 1}} {
		synctest.Test(t, func(t *testing.T) {
			portal := &tiered{perMinute: test.perMinute, burst: 50, tokens: 50, at: time.Now()}
			config := testConfig(portal)
			config.Wait = true
			c := newClient(t, config)
			start := time.Now()
			for range int(test.requests) {
				if err := look(t, c); err != nil {
					t.Fatal(err)
				}
			}
			took, least := time.Since(start), time.Duration(test.requests/min(test.perMinute, 300)*float64(time.Minute))
			if took > least+5*time.Second+time.Duration(test.refused)*30*time.Second || portal.refused != test.refused {
				t.Errorf("%v per minute: %v, %d of %d requests refused", test.perMinute, took, portal.refused, portal.requests)
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
