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
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// mutations returns every call that changes something at the portal.
func mutations(c *Client) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"create cluster": func(ctx context.Context) error {
			_, err := c.CreateCluster(ctx, CreateClusterRequest{Name: "n"})
			return err
		},
		"scale":   func(ctx context.Context) error { _, err := c.ScaleCluster(ctx, "c", 3); return err },
		"upgrade": func(ctx context.Context) error { _, err := c.UpgradeCluster(ctx, "c", "v"); return err },
		"delete":  func(ctx context.Context) error { _, err := c.DeleteCluster(ctx, "c"); return err },
		"create vpc": func(ctx context.Context) error {
			_, err := c.CreateVPC(ctx, CreateVPCRequest{Name: "n"})
			return err
		},
		"create network": func(ctx context.Context) error {
			_, err := c.CreateNetwork(ctx, CreateNetworkRequest{CIDR: "10.0.0.0/24"})
			return err
		},
		"delete volume":  func(ctx context.Context) error { _, err := c.DeleteVolume(ctx, "v"); return err },
		"reset password": func(ctx context.Context) error { return c.ResetPassword(ctx, "token", "new") },
		"disable mfa":    func(ctx context.Context) error { return c.DisableMFA(ctx, "idp") },
	}
}

// TestLostAnswers cuts a real TLS connection during the answer to each mutating call. The portal receives the request at most once, and the
// error says whether it may have been carried out. cloud/faulttest has the answers that arrive.
func TestLostAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		answer  string // as far as it comes
		unknown bool
	}{
		"before the answer":         {"", true},
		"in the header":             {"HTTP/1.1 202 Acc", true},
		"in the body":               {"HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\n{\"jobId\":\"j\",", true},
		"in the body of a refusal":  {"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 100\r\n\r\n{\"err", false},
		"in the body of a redirect": {"HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 100\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			portal := newTLSPortal(t, func(w http.ResponseWriter, _ *http.Request) { hijack(w, test.answer) })
			for operation := range mutations(nil) {
				portal.mutations.Store(0)
				err := mutations(portal.client(t))[operation](t.Context())
				if err == nil {
					t.Errorf("%s: no error", operation)
				}
				if got := IsUnknownOutcome(err); got != test.unknown {
					t.Errorf("%s: unknown outcome is %v: %v", operation, got, err)
				}
				which(t, err)
				if n := portal.mutations.Load(); n != 1 {
					t.Errorf("%s: the portal got the request %d times", operation, n)
				}
			}
		})
	}
}

// TestNothingWritten checks that all failures before the first written byte have a known outcome.
func TestNothingWritten(t *testing.T) {
	portal := newTLSPortal(t, refusal(500, "UNEXPECTED"))
	closed := newTLSPortal(t, refusal(500, "UNEXPECTED"))
	closed.Close()
	silent := listen(t, func(c net.Conn) { _ = c.Close() }) // no TLS handshake
	for name, config := range map[string]Config{
		"connection refused": {BaseURL: closed.URL, CABundle: closed.ca()},
		"unknown authority":  {BaseURL: portal.URL},
		"other host":         {BaseURL: strings.Replace(portal.URL, "127.0.0.1", "localhost", 1), CABundle: portal.ca()},
		"no TLS handshake":   {BaseURL: "https://" + silent},
	} {
		t.Run(name, func(t *testing.T) {
			config.Email, config.Password = "a@example.test", "pw"
			c := newClient(t, config)
			c.session.current = schedule("token", Login{UserID: "user"}, time.Now()) // logged in before the failure
			for operation, call := range mutations(c) {
				err := call(t.Context())
				if IsUnknownOutcome(err) || !IsUnavailable(err) {
					t.Errorf("%s: %q: %v", operation, which(t, err), err)
				}
			}
		})
	}
}

// TestCancelledCalls checks that a context that ends while the portal works leaves the outcome unknown, and that a context that ended
// before does not.
func TestCancelledCalls(t *testing.T) {
	arrived := make(chan struct{}, 1)
	portal := newTLSPortal(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // an answer could arrive before the end of the connection
	})
	c := portal.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := c.CreateCluster(ctx, CreateClusterRequest{})
	if !IsUnknownOutcome(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while the portal works: %v", err)
	}
	_, err = c.CreateCluster(ctx, CreateClusterRequest{})
	if IsUnknownOutcome(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

// TestMutationsUseFreshConnections checks that a portal or load balancer that closes idle connections cannot make the outcome of the next
// create unknown, or make net/http send the create twice.
func TestMutationsUseFreshConnections(t *testing.T) {
	portal := newTLSPortal(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"versions":[]}`)
			return
		}
		w.WriteHeader(202)
		_, _ = io.WriteString(w, `{"jobId":"j","status":"pending"}`)
	})
	c := portal.client(t)
	for range 5 {
		if _, err := c.KubernetesVersions(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CreateCluster(t.Context(), CreateClusterRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(portal.mutationConns); n != 5 {
		t.Errorf("5 mutations used %d connections", n)
	}
	if n := len(portal.otherConns); n != 1 {
		t.Errorf("logins and reads used %d connections", n)
	}
	for header := range portal.headers {
		if strings.Contains(strings.ToLower(header), "idempotency") {
			t.Errorf("header %s lets net/http send a POST twice", header)
		}
	}
}

// TestRedirectsAreNotFollowed checks that the client does not follow redirects, which would send the token or the password to another host.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	portal := newTLSPortal(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	_, err := portal.client(t).Instances(t.Context())
	if !IsUnavailable(err) {
		t.Errorf("a redirect is %v", err)
	}
	if elsewhere.Load() > 0 {
		t.Error("the redirect was followed")
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
			{60 * time.Second, true, func() error { _, err := c.ScaleCluster(t.Context(), "c", 3); return err }},
			{5 * time.Minute, true, func() error { _, err := c.CreateCluster(t.Context(), CreateClusterRequest{}); return err }},
			{5 * time.Minute, true, func() error { _, err := c.CreateVPC(t.Context(), CreateVPCRequest{}); return err }},
			{5 * time.Minute, true, func() error { _, err := c.CreateNetwork(t.Context(), CreateNetworkRequest{}); return err }},
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

func TestAnswersAreBounded(t *testing.T) {
	huge := roundTrip(func(r *http.Request) (*http.Response, error) {
		response, _ := answersWith(200, "")(r)
		if r.URL.Path != "/login" {
			response.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"kubeconfig":"`), endless{}))
		}
		return response, nil
	})
	_, err := newClient(t, testConfig(huge)).Kubeconfig(t.Context(), "c")
	if !IsUnavailable(err) || !errors.Is(err, errTooLarge) {
		t.Errorf("an endless answer gives %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
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
		{dial(&net.DNSError{IsTimeout: true}), "the portal's host name cannot be resolved", true},
		{dial(timeout{}), "the portal did not answer in time", true},
		{dial(errors.New("no route to host")), "the portal cannot be reached", true},
		{errProxyCredentials, "the proxy asks for credentials", false},
		{read(syscall.ECONNRESET), "the connection was lost before the answer was complete", false},
		{tls.RecordHeaderError{Msg: "x"}, "the server does not speak TLS", false},
		{x509.UnknownAuthorityError{}, "the portal's certificate is not signed by a trusted authority", true},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, "the portal's certificate is for another host name", true},
		{x509.CertificateInvalidError{Reason: x509.Expired}, "the portal's certificate has expired or is not yet valid", true},
		{x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}, "the portal's certificate is not signed by a trusted authority", true},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
			"the portal's certificate is not signed by a trusted authority", true},
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
