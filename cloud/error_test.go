// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

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

// TestWhatWasRefused checks that codes, tokens, certificates and proxies that require credentials can be distinguished from other failures.
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

// TestRetryAtOfARefusal checks that Retry-After counts for every refusal, and the end of the rate limit's window only for its own.
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

// presentable reports whether text from the portal can be shown in a terminal and a condition.
func presentable(text string, limit int) bool {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > limit {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) })
}

func checkError(t *testing.T, e *Error) {
	t.Helper()
	for _, text := range []string{string(e.Code), e.Field, e.RequestID} {
		if !presentable(text, maxName) {
			t.Errorf("%q is not presentable", text)
		}
	}
	if !presentable(e.Message, maxMessage) {
		t.Errorf("message %q is not presentable", e.Message)
	}
	which(t, e)
}

// FuzzJob checks that the parts of a job that is decoded from any bytes agree with each other.
func FuzzJob(f *testing.F) {
	for _, test := range endpoints {
		for _, body := range test.bodies {
			f.Add([]byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		job, ok := parseJob(body, nil)
		if !ok {
			if job.ID != "" || job.Done() {
				t.Errorf("an unreadable job is %+v", job)
			}
			return
		}
		if !json.Valid(body) {
			t.Error("a job was decoded from invalid JSON")
		}
		if job.Failed() != (job.Error != nil) {
			t.Errorf("failed %v, error %v", job.Failed(), job.Error)
		}
		if job.Error != nil {
			checkError(t, job.Error)
			if job.Error.Error() == "" {
				t.Error("the error of a failed job has no text")
			}
		}
		if id, ok := job.CreatedID("", ""); ok != (id != "") {
			t.Errorf("result id %q, %v", id, ok)
		}
	})
}

// FuzzError checks that an error that is decoded from any bytes is presentable, contains no secret and has exactly one class.
func FuzzError(f *testing.F) {
	f.Add(422, []byte(`{"error":{"code":"QUOTA_EXCEEDED","message":"too many","field":"size","requestId":"r"}}`))
	f.Add(500, []byte(`{"error":"RESOURCE_BUSY: x"}`))
	f.Add(500, []byte(`{"error":{"code":"QUOTA_EXCEEDED"}}`))
	f.Add(502, []byte("<html>"))
	f.Add(400, []byte("{\"error\":{\"code\":\"A\",\"message\":\"\xff\u202e\\u0000 s3cr3t\"}}"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		const secret = "s3cr3t"
		c := &call{route: routeCreateCluster, hidden: []string{secret}, sent: true}
		e := refused(c, &answer{status: status, header: http.Header{}, body: body})
		checkError(t, e)
		if strings.Contains(e.Error(), secret) {
			t.Errorf("%v", e)
		}
		if _, listed := kindOfCode[e.Code]; status == 500 && !listed && !IsUnknownOutcome(e) { // a listed code overrides the status
			t.Error("a create that failed with 500 and without a listed code has a known outcome")
		}
		if status == 429 && IsUnknownOutcome(e) {
			t.Error("a create that was rate limited has an unknown outcome")
		}
	})
}

// FuzzToken checks that a token that is decoded from any bytes fits in a header and has a sensible schedule.
func FuzzToken(f *testing.F) {
	f.Add([]byte(`{"token":"a.b.c"}`))
	f.Add([]byte(`{"data":{"access_token":"eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjF9.x"}}`))
	f.Add([]byte(`{"jwt":"eyJhbGciOiJub25lIn0.eyJleHAiOjFlMzAwLCJpYXQiOi0xZTMwMH0."}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		token, shape := tokenIn(body, "")
		if (shape != "") != (token != "") {
			t.Errorf("token %q, shape %q", token, shape)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("token %q does not fit in a header", token)
		}
		now := time.Now()
		for _, token := range []string{token, string(bytes.TrimSpace(body))} {
			g := schedule(token, Login{}, now)
			if g.refreshAt.Before(now.Add(minRefresh)) || g.refreshAt.After(now.Add(7*time.Hour)) {
				t.Errorf("refreshed at %v", g.refreshAt.Sub(now))
			}
			if g.expiresAt.Before(now) || g.expiresAt.After(now.Add(tokenLifetime)) {
				t.Errorf("expires at %v", g.expiresAt.Sub(now))
			}
		}
	})
}
