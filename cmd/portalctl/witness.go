// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// maxLoginAnswer bounds what is kept of a login's answer, in bytes.
const maxLoginAnswer = 1 << 20

// witness is a transport that notes what a login gave and the client keeps to itself: the user, whether there was a
// second factor, and how long the token lives. The token itself is not kept.
type witness struct {
	next http.RoundTripper

	mu      sync.Mutex
	login   loginRecord
	issued  time.Time // zero: the token does not tell
	expires time.Time
}

// loginRecord is what a login gives (specification, "Login result"), but for the token.
type loginRecord struct {
	User struct {
		ID    string `json:"id"`
		Email string `json:"email"`
		Role  string `json:"role"`
	} `json:"user"`
	MFARequired bool `json:"mfaRequired"`
}

// newWitness watches the transport; nil is HTTPS that trusts the bundle, or the system where that is empty.
func newWitness(next http.RoundTripper, bundle []byte) *witness {
	if next != nil {
		return &witness{next: next}
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(bundle) > 0 {
		secure.RootCAs = x509.NewCertPool()
		secure.RootCAs.AppendCertsFromPEM(bundle) // the client has refused a bundle that cannot be read
	}
	return &witness{next: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure}}
}

// RoundTrip implements http.RoundTripper.
func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		w.noteToken(token)
	}
	resp, err := w.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasSuffix(r.URL.Path, "/login") {
		return resp, err
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxLoginAnswer))
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = json.Unmarshal(head, &w.login) // the client complains of what cannot be read
	return resp, nil
}

// noteToken reads the times of a token, of which the last one in use counts; only the portal can verify it.
func (w *witness) noteToken(token string) {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil {
		return // a token need not be readable to anyone but the portal
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issued, w.expires = time.Time{}, time.Time{}
	if claims.IssuedAt != nil {
		w.issued = claims.IssuedAt.Time
	}
	if claims.ExpiresAt != nil {
		w.expires = claims.ExpiresAt.Time
	}
}

// CloseIdleConnections ends what the transport keeps open.
func (w *witness) CloseIdleConnections() {
	if next, ok := w.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
