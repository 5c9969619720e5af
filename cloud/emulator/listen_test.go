// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// listening returns a portal on a real socket, and a client that trusts it.
func listening(t *testing.T, opts emulator.Options) (*emulator.Portal, *http.Client) {
	t.Helper()
	p := newPortal(t, opts)
	must(t, p.Listen("127.0.0.1:0"))
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p.CAPEM()) {
		t.Fatal("the CA is not a certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return p, &http.Client{Transport: transport, Timeout: 5 * time.Minute}
}

func fetch(t *testing.T, client *http.Client, url string) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	response, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}

// TestTLS checks that the portal accepts only HTTPS, and that clients must trust its CA (Authentication 9).
func TestTLS(t *testing.T) {
	p, client := listening(t, emulator.Options{BasePath: "/v1"})
	response, body, err := fetch(t, client, p.URL()+"/vpcs")
	if err != nil || response.StatusCode != 401 || !bytes.Contains(body, []byte(emulator.CodeInvalidToken)) {
		t.Errorf("%v %v %s", err, response, body)
	}
	var unknown *tls.CertificateVerificationError
	if _, _, err := fetch(t, &http.Client{}, p.URL()+"/vpcs"); !errors.As(err, &unknown) {
		t.Errorf("without the CA: %v", err)
	}
	response, body, err = fetch(t, client, strings.Replace(p.URL(), "https", "http", 1)+"/vpcs")
	if err != nil || response.StatusCode != 400 || response.Header.Get("Content-Type") != "application/json" {
		t.Errorf("plain HTTP: %v %v", err, response)
	}
	if n := len(p.RequestLog()); n != 3 {
		t.Errorf("the request log has %d entries, want the start and two requests", n)
	}
	v := p.Violations()
	if len(v) != 1 || !bytes.Contains(body, []byte(emulator.CodeOperationNotAllowed)) || !bytes.Contains(body, []byte(v[0].RequestID)) {
		t.Errorf("plain HTTP: %s, violations: %v", body, v)
	}
}

// TestCutOnTheWire checks that faults cut a real connection, with HTTP/1 and HTTP/2.
func TestCutOnTheWire(t *testing.T) {
	for _, http1 := range []bool{false, true} {
		p, client := listening(t, emulator.Options{HTTP1: http1, Faults: []emulator.Fault{
			{Path: "/vpcs", Cut: true}, {Path: "/instances", Body: emulator.BodyInterrupted},
		}})
		if _, _, err := fetch(t, client, p.URL()+"/vpcs"); err == nil {
			t.Error("an answer came before the cut")
		}
		response, body, err := fetch(t, client, p.URL()+"/instances")
		if response == nil || err == nil || len(body) == 0 {
			t.Fatalf("interrupted: %v %q %v", response, body, err)
		}
		if want := map[bool]int{false: 2, true: 1}[http1]; response.ProtoMajor != want {
			t.Errorf("HTTP/%d, want %d", response.ProtoMajor, want)
		}
	}
}

// TestServe checks that Serve ends with its context, and that Close ends a listener and delayed answers.
func TestServe(t *testing.T) {
	p, client := listening(t, emulator.Options{Faults: []emulator.Fault{{Delay: time.Hour}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Serve(ctx, "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = fetch(t, client, p.URL()+"/vpcs")
	}()
	p.Close()
	<-done
	if err := p.Listen("127.0.0.1:0"); err == nil {
		t.Error("a closed portal listens")
	}
}

// admin returns the answer of the admin listener.
func admin(t *testing.T, p *emulator.Portal, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	p.AdminHandler().ServeHTTP(w, r.WithContext(t.Context()))
	return w
}

// TestAdmin checks that the admin listener sets faults and shows the portal's records.
func TestAdmin(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	c := login(t, p)
	for _, step := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/faults", `{"id":"one","path":"/vpcs","status":503,"delay":"1ms"}`, 200, `"id": "one"`},
		{"POST", "/faults", `[{"id":"two","cut":true,"nth":100},{"id":"three","cut":true,"nth":100}]`, 200, `"three"`},
		{"POST", "/faults", `{"id":"one","cut":true}`, 400, "already"},
		{"POST", "/faults", `{"cutt":true}`, 400, "cutt"},
		{"DELETE", "/faults/two", "", 200, `"three"`},
		{"GET", "/faults", "", 200, `"delay": "1ms"`},
		{"PUT", "/victim-order", `{"victimOrder":"oldest"}`, 200, `"oldest"`},
		{"PUT", "/victim-order", `{"victimOrder":"largest"}`, 400, "largest"},
		{"GET", "/victim-order", "", 200, `"oldest"`},
		{"GET", "/request-log", "", 200, `"path": "/login"`},
		{"GET", "/request-log?format=text", "", 200, "POST /login → 200\n"},
		{"GET", "/clusters", "", 200, "[]"},
		{"POST", "/clusters/none/rotate", `{"endpoints":true}`, 400, "endpoints"},
		{"POST", "/clusters/none/repair", "", 400, "no such cluster"},
		{"GET", "/jobs", "", 200, "[]"},
		{"GET", "/mailbox/admin@portal.example", "", 200, ""},
		{"GET", "/ca", "", 200, string(p.CAPEM())},
		{"PUT", "/faults", "", 405, ""},
	} {
		w := admin(t, p, httptest.NewRequest(step.method, "http://127.0.0.1"+step.path, strings.NewReader(step.body)))
		if w.Code != step.status || !strings.Contains(w.Body.String(), step.want) {
			t.Errorf("%s %s: %d %s", step.method, step.path, w.Code, w.Body)
		}
	}
	c.get("/vpcs").refused(503, emulator.CodeUnavailable)
	p.ClearFaults()
	c.get("/vpcs").want(200)
}

// TestAdminIsLocal checks that the admin listener listens only on loopback, and refuses other host names and web pages, which a local browser
// lets send forms to the listener.
func TestAdminIsLocal(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	if _, err := p.ListenAdmin("0.0.0.0:0"); err == nil {
		t.Error("the admin listener is open to the network")
	}
	url, err := p.ListenAdmin("127.0.0.1:0")
	must(t, err)
	if response, body, err := fetch(t, &http.Client{}, url+"/clusters"); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%v %s", err, body)
	}
	for host, origin := range map[string]string{"portal.example": "", "127.0.0.1:8444": "http://portal.example"} {
		r := httptest.NewRequest(http.MethodPost, "http://"+host+"/faults", strings.NewReader(`{"cut":true}`))
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if w := admin(t, p, r); w.Code != http.StatusForbidden || len(p.Faults()) != 0 {
			t.Errorf("%s, from %q: %d %s", host, origin, w.Code, w.Body)
		}
	}
}
