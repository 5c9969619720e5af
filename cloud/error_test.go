// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
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

// TestNotFoundOfAnotherServer checks that only the portal's own 404 means that an id does not exist. A load balancer sends another
// one while the portal restarts.
func TestNotFoundOfAnotherServer(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"documented":            {`{"error":{"code":"RESOURCE_NOT_FOUND","message":"m"}}`, "not found"},
		"with a new code":       {`{"error":{"code":"NO_SUCH_CLUSTER","message":"m"}}`, "not found"},
		"with the code as text": {`{"error":"RESOURCE_NOT_FOUND: no such job"}`, "not found"},
		"a page":                {`<html>404 Not Found</html>`, "unavailable"},
		"empty":                 {``, "unavailable"},
		"without a code":        {`{"error":{"message":"no such route"}}`, "unavailable"},
		"another API":           {`{"status":404,"error":"Not Found","path":"/jobs/1"}`, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, testConfig(answersWith(404, test.body)))
			_, job := client.Job(t.Context(), "job-1")
			_, kubeconfig := client.Kubeconfig(t.Context(), "cluster-1")
			_, vpcs := client.VPCs(t.Context(), "")
			_, versions := client.KubernetesVersions(t.Context())
			for what, err := range map[string]error{"job": job, "kubeconfig": kubeconfig, "vpcs": vpcs, "versions": versions} {
				if got := which(t, err); got != test.want {
					t.Errorf("%s: %v is %q, want %q", what, err, got, test.want)
				}
			}
		})
	}
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

// TestWhatWasRefused checks that a refused code, a refused token and refused credentials can be distinguished.
func TestWhatWasRefused(t *testing.T) {
	for name, test := range map[string]struct {
		err         error
		code, token bool
	}{
		"nothing":           {nil, false, false},
		"the configuration": {&Error{kind: kindUnauthorized}, false, false},
		"the credentials":   {&Error{Endpoint: routeLogin.String(), Status: 401}, false, false},
		"to send a code":    {&Error{Endpoint: routeSendOTP.String(), Status: 401}, false, false},
		"the code":          {&Error{Endpoint: routeVerifyOTP.String(), Status: 401, Code: "X"}, true, false},
		"no code, but busy": {&Error{Endpoint: routeVerifyOTP.String(), Status: 503}, false, false},
		"the token":         {&Error{Endpoint: routeVersions.String(), Status: 401, Code: "X"}, false, true},
		"by a proxy":        {&Error{Endpoint: routeVersions.String(), Status: 401}, false, false},
		"the call":          {&Error{Endpoint: routeVersions.String(), Status: 404}, false, false},
	} {
		if got := IsCodeRefused(test.err); got != test.code {
			t.Errorf("%s: the code was refused: %t", name, got)
		}
		if got := IsTokenRefused(test.err); got != test.token {
			t.Errorf("%s: the token was refused: %t", name, got)
		}
	}
}

// TestWhatIsOnTheWay checks that an untrusted certificate and a proxy that requires credentials can be distinguished from other failures
// and from nil.
func TestWhatIsOnTheWay(t *testing.T) {
	for name, test := range map[string]struct {
		err              error
		untrusted, proxy bool
	}{
		"nothing":          {nil, false, false},
		"a refusal":        {&Error{Status: 401}, false, false},
		"no connection":    {&Error{cause: net.ErrClosed}, false, false},
		"a certificate":    {&Error{cause: x509.HostnameError{}}, true, false},
		"a proxy":          {&Error{Status: 407}, false, true},
		"a proxy, CONNECT": {&Error{cause: errProxyCredentials}, false, true},
	} {
		if got := IsUntrusted(test.err); got != test.untrusted {
			t.Errorf("%s: the certificate is not trusted: %t", name, got)
		}
		if got := IsProxyCredentials(test.err); got != test.proxy {
			t.Errorf("%s: a proxy requires credentials: %t", name, got)
		}
	}
}

func TestErrorBodies(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   Error
	}{
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

func TestRetryAfterOfARefusal(t *testing.T) {
	start := time.Now()
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		response, _ := answersWith(503, `{"error":{"code":"MAINTENANCE"}}`)(r)
		response.Header.Set("Retry-After", "120")
		return response, nil
	})
	_, err := newClient(t, testConfig(transport)).Instances(t.Context())
	at, ok := RetryAt(err)
	if wait := at.Sub(start); !ok || wait < 119*time.Second || wait > 125*time.Second {
		t.Errorf("RetryAt is %v, %v after the call", ok, wait)
	}
}
