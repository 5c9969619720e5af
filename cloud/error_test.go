// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

func TestNoErrorIsNothing(t *testing.T) {
	var none *Error
	for _, err := range []error{nil, none, errors.New("other"), context.Canceled} {
		if got := which(t, err); got != "" {
			t.Errorf("%v is %q", err, got)
		}
		if _, ok := RetryAt(err); ok {
			t.Errorf("%v has a RetryAt", err)
		}
	}
}

func TestErrorBodies(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   Error
	}{
		"a new code":  {404, `{"error":{"code":"NO_SUCH_CLUSTER","message":"m"}}`, Error{Code: "NO_SUCH_CLUSTER", Message: "m", kind: kindNotFound}},
		"no code":     {404, `{"error":{"message":"no such route"}}`, Error{Message: "no such route", kind: kindUnavailable}},
		"another API": {404, `{"status":404,"error":"Not Found","path":"/jobs/1"}`, Error{Message: "Not Found", kind: kindUnavailable}},
		"documented": {422, `{"error":{"code":"QUOTA_EXCEEDED","message":"too many","field":"size","requestId":"r-1"}}`,
			Error{Code: "QUOTA_EXCEEDED", Message: "too many", Field: "size", RequestID: "r-1"}},
		"unknown code":    {418, `{"error":{"code":"TEAPOT","message":"short"}}`, Error{Code: "TEAPOT", Message: "short"}},
		"string":          {500, `{"error":"broken"}`, Error{Message: "broken"}},
		"code in string":  {409, `{"error":"RESOURCE_BUSY: wait"}`, Error{Code: "RESOURCE_BUSY", Message: "wait"}},
		"only a code":     {409, `{"error":"RESOURCE_BUSY"}`, Error{Code: "RESOURCE_BUSY", Message: "Conflict"}},
		"number as code":  {400, `{"error":{"code":17,"message":"x"}}`, Error{Code: "17", Message: "x"}},
		"object as field": {400, `{"error":{"code":"A","field":{"x":1}}}`, Error{Code: "A", Message: "Bad Request"}},
		"not JSON":        {502, `<html>Bad gateway</html>`, Error{Message: "Bad Gateway"}},
		"empty":           {503, ``, Error{Message: "Service Unavailable"}},
		"null":            {503, `{"error":null}`, Error{Message: "Service Unavailable"}},
		"array":           {503, `[1]`, Error{Message: "Service Unavailable"}},
		"control characters": {400, `{"error":{"code":"A","message":"a\u0000b\u001b[31mred\nline\u202eright"}}`,
			Error{Code: "A", Message: "a b [31mred lineright"}},
		"long": {400, `{"error":{"code":"A","message":"` + strings.Repeat("ä", 10_000) + `"}}`,
			Error{Code: "A", Message: strings.Repeat("ä", maxMessage-1) + "…"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, testConfig(answersWith(test.status, test.body)))
			_, err := client.Kubeconfig(t.Context(), "c")
			got := asError(err)
			if got == nil {
				t.Fatalf("got %v", err)
			}
			if got.Code != test.want.Code || got.Message != test.want.Message || got.Field != test.want.Field ||
				got.RequestID != test.want.RequestID || got.Status != test.status {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
		})
	}
}

// TestErrorTextIsStable checks that Error() does not change while the cause stays the same, because conditions show it.
func TestErrorTextIsStable(t *testing.T) {
	a := &Error{Endpoint: "GET /x", Status: 409, Code: "A", Message: "m", RequestID: "1", RetryAt: time.Unix(1, 0)}
	b := &Error{Endpoint: "GET /x", Status: 400, Code: "A", Message: "m", RequestID: "2", RetryAt: time.Unix(2, 0)}
	if a.Error() != b.Error() {
		t.Errorf("%q differs from %q", a, b)
	}
	var texts []string
	for port := range 2 {
		read := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: errors.New("connection reset")}
		_, err := newClient(t, testConfig(roundTrip(func(*http.Request) (*http.Response, error) { return nil, read }))).Instances(t.Context())
		texts = append(texts, err.Error())
		if !IsUnavailable(err) {
			t.Errorf("%v is not unavailable", err)
		}
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
		"nothing":           {nil, ""},
		"the configuration": {&Error{kind: kindUnauthorized}, ""},
		"the credentials":   {&Error{Endpoint: routeLogin.String(), Status: 401}, ""},
		"to send a code":    {&Error{Endpoint: routeSendOTP.String(), Status: 401}, ""},
		"the code":          {&Error{Endpoint: routeVerifyOTP.String(), Status: 401, Code: "X"}, "code"},
		"no code, but busy": {&Error{Endpoint: routeVerifyOTP.String(), Status: 503}, ""},
		"the token":         {&Error{Endpoint: routeVersions.String(), Status: 401, Code: "X"}, "token"},
		"by a proxy":        {&Error{Endpoint: routeVersions.String(), Status: 401}, ""},
		"the call":          {&Error{Endpoint: routeVersions.String(), Status: 404}, ""},
		"no connection":     {&Error{cause: net.ErrClosed}, ""},
		"a certificate":     {&Error{cause: x509.HostnameError{}}, "certificate"},
		"a proxy":           {&Error{Status: 407}, "proxy"},
		"a proxy, CONNECT":  {&Error{cause: errProxyCredentials}, "proxy"},
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

// TestFailedJobs checks the class of a failed job's error in each shape. An unknown code has no class, because a job has no status that could
// decide instead.
func TestFailedJobs(t *testing.T) {
	for code, want := range map[Code]string{
		CodeInvalidParameter: "invalid", CodeResourceNotFound: "not found", CodeResourceBusy: "busy", CodeQuotaExceeded: "quota",
		CodeInsufficientCapacity: "capacity", CodeOperationNotAllowed: "not allowed", "BRAND_NEW": "",
	} {
		for _, shape := range []string{`{"code":%q,"message":"m"}`, `{"error":{"code":%q,"message":"m"}}`, `"%s: m"`} {
			job, ok := parseJob(fmt.Appendf(nil, `{"status":"failed","error":`+shape+`}`, code), nil)
			if got := which(t, job.Error); !ok || !job.Failed() || !strings.HasSuffix(job.Error.Message, "m") || got != want {
				t.Errorf("%s as %s: %q, want %q: %v", code, shape, got, want, job.Error)
			}
		}
	}
}
