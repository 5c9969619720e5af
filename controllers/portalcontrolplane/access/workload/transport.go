// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// handshakeTimeout and headerTimeout bound what the client's own timeout does not: lists and watches of Nodes have 11 minutes.
	handshakeTimeout = 5 * time.Second
	headerTimeout    = 30 * time.Second
	// maxHeader is far above the headers of an API server. net/http accepts 10 MB by default.
	maxHeader = 64 << 10
)

// transport sends the requests of one Connection, and refuses answers beyond the bounds.
type transport struct {
	plain         *http.Transport
	authenticated http.RoundTripper // by way of plain
	behind        atomic.Int64      // how far the API server's clock is behind the manager's, to a second
}

func newTransport(config *rest.Config, dial DialFunc) (*transport, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	t := &transport{}
	t.plain = &http.Transport{ // HTTP/1.1, so that each answer has its own connection and cutting one ends no other
		TLSClientConfig: tlsConfig, DialContext: dial, Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: handshakeTimeout,
		ResponseHeaderTimeout: headerTimeout, MaxResponseHeaderBytes: maxHeader, DisableCompression: true, IdleConnTimeout: time.Minute,
	}
	t.authenticated, err = rest.HTTPWrappersForConfig(config, t.plain)
	return t, err
}

// RoundTrip implements http.RoundTripper. It asks for JSON, because the bounds are those of JSON.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	accept := "application/json"
	for kind := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if kind = strings.TrimSpace(kind); strings.HasPrefix(kind, "application/json;") {
			accept = kind + "," + accept
		}
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", "identity")
	answer, err := t.authenticated.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		t.behind.Store(int64(time.Since(date).Truncate(time.Second)))
	}
	if err := refuse(answer); err != nil {
		_ = answer.Body.Close() // nothing of it is read
		return nil, err
	}
	answer.Body = bound(answer)
	return answer, nil
}

// refuse refuses an answer whose size is unknown before it is decoded, or that would lead the client elsewhere.
func refuse(answer *http.Response) error {
	encoding := answer.Header.Get("Content-Encoding")
	switch {
	case answer.StatusCode == http.StatusSwitchingProtocols, answer.StatusCode >= 300 && answer.StatusCode < 400:
		return fmt.Errorf("the API server answered with a redirect (status %d), which is not followed", answer.StatusCode)
	case encoding != "" && encoding != "identity":
		return errors.New("the answer is compressed")
	}
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
		answer.Header.Set("Content-Type", "text/plain") // nothing decodes it
	}
	return nil
}
