// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTransportsAreBounded checks what a test against a server would need minutes or an environment for.
func TestTransportsAreBounded(t *testing.T) {
	transport := newTransport(nil, newDial(nil, &url.URL{}), false)
	if transport.TLSHandshakeTimeout != connectTimeout || transport.IdleConnTimeout != 30*time.Second || transport.Protocols.HTTP2() {
		t.Errorf("the handshake may take %s, idle connections stay for %s, with %v",
			transport.TLSHandshakeTimeout, transport.IdleConnTimeout, transport.Protocols)
	}
	if transport.Proxy == nil {
		t.Error("the environment's proxy is not used")
	}
}

// TestHeadersAreBounded checks that a portal cannot fill this machine's memory with a header.
func TestHeadersAreBounded(t *testing.T) {
	size := 0
	portal := newTLSPortal(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", size))
		_, _ = w.Write([]byte(`{"versions":[]}`))
	})
	for kilobytes, fails := range map[int]bool{32: false, 100: true} {
		size = kilobytes << 10
		if _, err := portal.client(t).KubernetesVersions(t.Context()); (err != nil) != fails {
			t.Errorf("a header of %d KB: %v", kilobytes, err)
		}
	}
}

// TestLateRefusalOfAnOldToken checks that the late refusal of an old token does not make the client drop a new one.
func TestLateRefusalOfAnOldToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		slow := roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := d.RoundTrip(r)
			if r.URL.Path == "/jobs/slow" {
				time.Sleep(10 * time.Second) // the answer arrives after the refusal of the token
			}
			return resp, err
		})
		c := newClient(t, testConfig(slow))
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		d.revokeAll()
		done := make(chan struct{})
		go func() { _, _ = c.Job(t.Context(), "slow"); close(done) }()
		time.Sleep(time.Second)
		if err := look(t, c); err != nil { // logs in again
			t.Fatal(err)
		}
		<-done
		if err := look(t, c); err != nil || len(d.logins) != 2 {
			t.Errorf("%d logins, want 2: %v", len(d.logins), err)
		}
	})
}

// tlsPortal is a portal over real TLS that accepts every login and counts all other requests.
type tlsPortal struct {
	*httptest.Server
	mutations atomic.Int64

	mu            sync.Mutex
	mutationConns map[string]bool
	otherConns    map[string]bool
	headers       http.Header
}

func newTLSPortal(t *testing.T, answer http.HandlerFunc) *tlsPortal {
	p := &tlsPortal{mutationConns: map[string]bool{}, otherConns: map[string]bool{}, headers: http.Header{}}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		p.note(r)
		if r.URL.Path == "/login" {
			_, _ = io.WriteString(w, `{"token":"token-1","user":{"id":"user-1"}}`)
			return
		}
		answer(w, r)
	}))
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

func (p *tlsPortal) note(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range r.Header {
		p.headers[name] = nil
	}
	if r.Method == http.MethodGet || r.URL.Path == "/login" {
		p.otherConns[r.RemoteAddr] = true
		return
	}
	p.mutations.Add(1)
	p.mutationConns[r.RemoteAddr] = true
}

func (p *tlsPortal) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
}

// client returns a client with the real HTTPS transport.
func (p *tlsPortal) client(t *testing.T) *Client {
	t.Helper()
	c := newClient(t, Config{BaseURL: p.URL, CABundle: p.ca(), Email: "a@example.test", Password: "pw"})
	t.Cleanup(c.Close)
	return c
}

// hijack writes raw bytes and closes the connection.
func hijack(w http.ResponseWriter, raw string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(conn, raw)
	_ = conn.Close()
}
