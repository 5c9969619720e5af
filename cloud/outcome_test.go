// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestLostAnswers cuts a real TLS connection during the answer to each mutating call. The portal receives the request at most once, and the
// error says whether it may have been carried out. test/faulttest has the answers that arrive.
func TestLostAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer  string // as far as it comes
		unknown bool
	}{
		"before the answer":        {"", true},
		"in the header":            {"HTTP/1.1 202 Acc", true},
		"in the body":              {"HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\n{\"jobId\":\"j\",", true},
		"in the body of a refusal": {"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 100\r\n\r\n{\"err", false},
	} {
		t.Run(name, func(t *testing.T) {
			portal := newTLSPortal(t, func(w http.ResponseWriter, _ *http.Request) { hijack(w, test.answer) })
			for operation, call := range mutations() {
				portal.mutations.Store(0)
				_, err := call(t.Context(), portal.client(t))
				if err == nil || IsUnknownOutcome(err) != test.unknown {
					t.Errorf("%s: unknown outcome is not %t: %v", operation, test.unknown, err)
				}
				if n := portal.mutations.Load(); n != 1 {
					t.Errorf("%s: the portal got the request %d times", operation, n)
				}
			}
		})
	}
}

// TestNothingWritten checks that failures before the first written byte have a known outcome.
func TestNothingWritten(t *testing.T) {
	portal, closed := newTLSPortal(t, nil), newTLSPortal(t, nil)
	closed.Close()
	for name, config := range map[string]Config{
		"connection refused": {BaseURL: closed.URL, CABundle: closed.ca()},
		"unknown authority":  {BaseURL: portal.URL},
	} {
		config.Email, config.Password = "a@example.test", "pw"
		c := newClient(t, config)
		c.session.current = schedule("token", Login{UserID: "user"}, time.Now()) // logged in before the failure
		for operation, call := range mutations() {
			if _, err := call(t.Context(), c); which(t, err) != "unavailable" {
				t.Errorf("%s: %s: %v", name, operation, err)
			}
		}
	}
}

// TestCancelledCalls checks that the outcome is unknown if the context ends while the portal works, and not if it ended before.
func TestCancelledCalls(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	portal := newTLSPortal(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // an answer could arrive before the end of the connection
	})
	c := portal.client(t)
	for _, unknown := range []bool{true, false} {
		_, err := c.CreateCluster(ctx, CreateClusterRequest{})
		if IsUnknownOutcome(err) != unknown || !errors.Is(err, context.Canceled) {
			t.Errorf("while the portal works: %t: %v", unknown, err)
		}
	}
}

// TestMutationsUseFreshConnections checks that an idle connection that was closed can neither hide the outcome of a create nor have it sent twice.
func TestMutationsUseFreshConnections(t *testing.T) {
	portal := newTLSPortal(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"versions":[],"jobId":"j","status":"pending"}`)
	})
	c := portal.client(t)
	for range 5 {
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CreateCluster(t.Context(), CreateClusterRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if mutations, others := len(portal.mutationConns), len(portal.otherConns); mutations != 5 || others != 1 {
		t.Errorf("5 mutations used %d connections, logins and reads %d", mutations, others)
	}
	for header := range portal.headers {
		if strings.Contains(strings.ToLower(header), "idempotency") {
			t.Errorf("header %s lets net/http send a POST twice", header)
		}
	}
}

// TestRedirectsAreNotFollowed checks that the client does not follow redirects, which would send the token or the password to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	portal := newTLSPortal(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	})
	if err := look(t, portal.client(t)); !IsUnavailable(err) {
		t.Errorf("a redirect is %v", err)
	}
}

// TestReadTimeouts checks that the client gives up after 60 s without an answer, and after 30 s for a poll (specification, "Limits"). A
// creation must not be sent again, so its answer is waited for longer.
func TestReadTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/login" {
				return answersWith(200, "")(r)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c := newClient(t, testConfig(silent))
		for _, test := range []struct {
			want    time.Duration
			unknown bool
			call    func() error
		}{
			{60 * time.Second, false, func() error { _, err := c.Instances(t.Context()); return err }},
			{30 * time.Second, false, func() error { _, err := c.Job(t.Context(), "j"); return err }},
			{60 * time.Second, true, func() error { _, err := c.DeleteCluster(t.Context(), "c"); return err }},
			{5 * time.Minute, true, func() error { _, err := c.CreateCluster(t.Context(), CreateClusterRequest{}); return err }},
		} {
			start := time.Now()
			err := test.call()
			if took := time.Since(start); took != test.want {
				t.Errorf("%v after %v, want %v", err, took, test.want)
			}
			if IsUnknownOutcome(err) != test.unknown || !test.unknown && !IsUnavailable(err) {
				t.Errorf("%q: %v", which(t, err), err)
			}
		}
	})
}

// TestAnswersAreBounded checks that a body of the maximum size is read, and that a larger one is neither read to its end nor believed.
func TestAnswersAreBounded(t *testing.T) {
	const open, end = `{"kubeconfig":"`, `"}`
	for size, want := range map[int]error{maxBody: nil, maxBody + 1: errTooLarge, 2 * maxBody: errTooLarge} {
		body := strings.NewReader(open + strings.Repeat("x", size-len(open+end)) + end)
		_, err := newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := answersWith(200, "")(r)
			if r.URL.Path != "/login" {
				response.Body = io.NopCloser(body)
			}
			return response, err
		}))).Kubeconfig(t.Context(), "c")
		if !errors.Is(err, want) || IsUnavailable(err) != (want != nil) || body.Len() != max(size-maxBody-1, 0) {
			t.Errorf("an answer of %d bytes, of which %d are left: %v", size, body.Len(), err)
		}
	}
}

// TestReasons checks that the description of a failed connection is stable, and whether the request may have been written.
func TestReasons(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	read := func(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }
	for _, test := range []struct {
		err    error
		want   string
		before bool
	}{
		{context.Canceled, "the call was cancelled", false},
		{errReadTimeout, "the portal did not answer in time", false},
		{errTooLarge, "the portal's answer is too large", false},
		{dial(syscall.ECONNREFUSED), "the portal refused the connection", true},
		{dial(&net.DNSError{IsNotFound: true}), "the portal's host name cannot be resolved", true},
		{dial(timeout{}), "the portal did not answer in time", true},
		{dial(errors.New("no route to host")), "the portal cannot be reached", true},
		{errProxyCredentials, "the proxy asks for credentials", false},
		{read(syscall.ECONNRESET), "the connection was lost before the answer was complete", false},
		{tls.RecordHeaderError{Msg: "x"}, "the server does not speak TLS", false},
		{x509.UnknownAuthorityError{}, "the portal's certificate is not signed by a trusted authority", true},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, "the portal's certificate is for another host name", true},
		{x509.CertificateInvalidError{Reason: x509.Expired}, "the portal's certificate has expired or is not yet valid", true},
	} {
		err := fmt.Errorf("round trip: %w", test.err)
		if got := reason(err); got != test.want {
			t.Errorf("%v is %q, want %q", test.err, got, test.want)
		}
		if got := isBeforeWriting(err); got != test.before {
			t.Errorf("%v happens before writing: %v", test.err, got)
		}
	}
}

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
