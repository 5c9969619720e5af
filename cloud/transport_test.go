// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTransportsAreBounded checks the timeouts of the specification, the proxy of the environment, and the limit on headers. It only checks
// the handshake's timeout, because a test of a hanging handshake would take ten seconds.
func TestTransportsAreBounded(t *testing.T) {
	for _, mutations := range []bool{false, true} {
		transport := newTransport(nil, newDial(nil, &url.URL{}), mutations)
		if transport.TLSHandshakeTimeout != connectTimeout || transport.TLSClientConfig.MinVersion == 0 {
			t.Errorf("the handshake may take %s", transport.TLSHandshakeTimeout)
		}
		if transport.DisableKeepAlives != mutations || transport.Protocols.HTTP2() || !transport.Protocols.HTTP1() {
			t.Errorf("mutations: %t, keep-alives are off: %t, %v", mutations, transport.DisableKeepAlives, transport.Protocols)
		}
		if transport.IdleConnTimeout != 30*time.Second {
			t.Errorf("idle connections stay for %s", transport.IdleConnTimeout)
		}
		if transport.Proxy == nil {
			t.Error("the environment's proxy is not used")
		}
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

// TestLateRefusalOfAnOldToken checks that the refusal of a call with the old token does not make the client drop the new token of another
// call.
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
