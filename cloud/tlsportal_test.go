// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

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
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.note(r)
		if r.URL.Path == "/login" {
			_, _ = io.WriteString(w, `{"token":"token-1","user":{"id":"user-1"}}`)
			return
		}
		answer(w, r)
	}))
	p.Config.ErrorLog = quiet
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

func refusal(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"code":%q,"message":"m","requestId":"r"}}`, code)
	}
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

// listen serves raw connections and returns the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	return listener.Addr().String()
}
