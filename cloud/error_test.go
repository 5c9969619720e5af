// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var predicates = map[string]func(error) bool{
	"busy": IsBusy, "not allowed": IsNotAllowed, "quota": IsQuota, "capacity": IsCapacity, "invalid": IsInvalid,
	"not found": IsNotFound, "mfa": IsMFARequired, "unauthorized": IsUnauthorized, "forbidden": IsForbidden,
	"rate limited": IsRateLimited, "unavailable": IsUnavailable, "unsupported": IsUnsupported, "not portal": IsNotPortal,
	"unknown outcome": IsUnknownOutcome, "host refused": IsHostRefused,
}

// which returns the name of the only predicate that is true for the error.
func which(t *testing.T, err error) string {
	t.Helper()
	var holds []string
	for name, is := range predicates {
		if is(err) {
			holds = append(holds, name)
		}
	}
	if len(holds) > 1 {
		t.Errorf("%v has %d classes at once: %v", err, len(holds), holds)
	}
	return strings.Join(holds, ",")
}

// TestErrorBodies checks what the client understands of a refusal's body.
func TestErrorBodies(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   Error
	}{
		"another API": {404, `{"status":404,"error":"Not Found","path":"/jobs/1"}`, Error{Message: "Not Found"}},
		"documented": {422, `{"error":{"code":"QUOTA_EXCEEDED","message":"too many","field":"size","requestId":"r-1"}}`,
			Error{Code: "QUOTA_EXCEEDED", Message: "too many", Field: "size", RequestID: "r-1"}},
		"code in string":  {409, `{"error":"RESOURCE_BUSY: wait"}`, Error{Code: "RESOURCE_BUSY", Message: "wait"}},
		"only a code":     {409, `{"error":"RESOURCE_BUSY"}`, Error{Code: "RESOURCE_BUSY", Message: "Conflict"}},
		"number as code":  {400, `{"error":{"code":17,"message":"x"}}`, Error{Code: "17", Message: "x"}},
		"object as field": {400, `{"error":{"code":"A","field":{"x":1}}}`, Error{Code: "A", Message: "Bad Request"}},
		"not JSON":        {502, `<html>Bad gateway</html>`, Error{Message: "Bad Gateway"}},
		"null":            {503, `{"error":null}`, Error{Message: "Service Unavailable"}},
		"control characters": {400, `{"error":{"code":"A","message":"a\u0000b\u001b[31mred\nline\u202eright"}}`,
			Error{Code: "A", Message: "a b [31mred lineright"}},
		"long": {400, `{"error":{"code":"A","message":"` + strings.Repeat("ä", 10_000) + `"}}`,
			Error{Code: "A", Message: strings.Repeat("ä", maxMessage-1) + "…"}},
	} {
		_, err := newClient(t, testConfig(answersWith(test.status, test.body))).Kubeconfig(t.Context(), "c")
		test.want.Status, test.want.Endpoint = test.status, routeKubeconfig.String()
		if diff := cmp.Diff(&test.want, asError(err), cmpopts.IgnoreUnexported(Error{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// TestErrorTextIsStable checks that Error() does not change while the cause stays the same, because conditions show it.
func TestErrorTextIsStable(t *testing.T) {
	a := &Error{Endpoint: "GET /x", Status: 409, Code: "A", Message: "m", RequestID: "1", RetryAt: time.Unix(1, 0)}
	b := &Error{Endpoint: "GET /x", Status: 400, Code: "A", Message: "m", RequestID: "2", RetryAt: time.Unix(2, 0)}
	if a.Error() != b.Error() {
		t.Errorf("%q differs from %q", a, b)
	}
	var texts [2]string
	for port := range texts {
		read := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: errors.New("connection reset")}
		texts[port] = look(t, newClient(t, testConfig(roundTrip(func(*http.Request) (*http.Response, error) { return nil, read })))).Error()
	}
	if texts[0] != texts[1] {
		t.Errorf("%q differs from %q", texts[0], texts[1])
	}
}

// TestWhatWasRefused checks that a refused code, a refused token, an untrusted certificate and a proxy that requires credentials can be
// distinguished from other failures and from nil.
func TestWhatWasRefused(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"nothing":          {nil, ""},
		"the credentials":  {&Error{Endpoint: routeLogin.String(), Status: 401}, ""},
		"the code":         {&Error{Endpoint: routeVerifyOTP.String(), Status: 401, Code: "X"}, "code"},
		"the token":        {&Error{Endpoint: routeVersions.String(), Status: 401, Code: "X"}, "token"},
		"by a proxy":       {&Error{Endpoint: routeVersions.String(), Status: 401}, ""},
		"the call":         {&Error{Endpoint: routeVersions.String(), Status: 404}, ""},
		"a certificate":    {&Error{cause: x509.HostnameError{}}, "certificate"},
		"a proxy":          {&Error{Status: 407}, "proxy"},
		"a proxy, CONNECT": {&Error{cause: errProxyCredentials}, "proxy"},
	} {
		got := ""
		for what, is := range map[string]func(error) bool{
			"code": IsCodeRefused, "token": IsTokenRefused, "certificate": IsUntrusted, "proxy": IsProxyCredentials,
		} {
			if is(test.err) {
				got += what
			}
		}
		if got != test.want {
			t.Errorf("%s: %q was refused, want %q", name, got, test.want)
		}
	}
}

// TestRetryAtOfARefusal checks that Retry-After counts for every refusal, and X-RateLimit-Reset, which is the end of the rate limit's window,
// only for a refusal by the rate limit.
func TestRetryAtOfARefusal(t *testing.T) {
	for _, test := range []struct {
		status       int
		body, header string
		want         time.Duration
	}{
		{503, `{"error":{"code":"MAINTENANCE"}}`, "Retry-After", 2 * time.Minute},
		{409, `{"error":{"code":"RESOURCE_BUSY"}}`, "X-RateLimit-Reset", 0},
		{503, ``, "X-RateLimit-Reset", 0},
		{403, `{"error":{"code":"RATE_LIMITED"}}`, "X-RateLimit-Reset", time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			value := map[string]any{"Retry-After": 120, "X-RateLimit-Reset": time.Now().Add(time.Hour).Unix()}[test.header]
			c := newClient(t, testConfig(newByPath(map[string]func(*http.Request) *http.Response{"/vpcs": func(*http.Request) *http.Response {
				resp := respond(test.status, test.body)
				resp.Header.Set(test.header, fmt.Sprint(value))
				return resp
			}})))
			_, err := c.VPCs(t.Context(), "")
			at, ok := RetryAt(err)
			if wait := time.Until(at); ok != (test.want > 0) || ok && (wait < test.want || wait > test.want*5/4) {
				t.Errorf("%d %s with %s: RetryAt in %v, %v", test.status, test.body, test.header, wait, ok)
			}
		})
	}
}
