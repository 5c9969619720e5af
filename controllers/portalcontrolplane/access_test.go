// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// apiServer answers with a status, over TLS.
type apiServer struct {
	*httptest.Server
	status atomic.Int32
	hits   atomic.Int32
}

// newAPIServer must not be called in a bubble of synctest, in which a listener would stop the clock.
func newAPIServer(t *testing.T, status int32) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.status.Store(status)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.hits.Add(1)
		w.Header().Set("Location", "https://"+r.Host+"/elsewhere")
		w.WriteHeader(int(s.status.Load()))
	}))
	t.Cleanup(s.Close)
	return s
}

// kubeconfig leads to the server with the user's part.
func (s *apiServer) kubeconfig(user string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return kubeconfigFor(fmt.Sprintf("server: '%s', certificate-authority-data: %s", s.URL, base64.StdEncoding.EncodeToString(ca)), user)
}

// TestAccess classifies how an API server reacts to a kubeconfig.
func TestAccess(t *testing.T) {
	closed := newAPIServer(t, 200)
	closed.Close()
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	certificate, _ := clientPair(t, time.Now().Add(time.Hour))
	stranger := base64.StdEncoding.EncodeToString(certificate)
	token, old := "token: "+canary, "token: "+newJWT(`{"exp":1000}`)
	with := func(status int32, user string) string { return newAPIServer(t, status).kubeconfig(user) }
	tests := map[string]struct {
		kubeconfig string
		want       access
	}{
		"it answers":                      {with(200, token), accessAnswering},
		"it answers, to an expired token": {with(200, old), accessAnswering},
		"401":                             {with(401, token), accessUnauthorized},
		"401, to an expired token":        {with(401, old), accessExpired},
		"403":                             {with(403, token), accessUnauthorized},
		"it starts":                       {with(503, token), accessUnreachable},
		"it is something else":            {with(404, token), accessUnreachable},
		"it leads elsewhere":              {with(302, token), accessUnreachable},
		"closed":                          {closed.kubeconfig(token), accessUnreachable},
		"closed, and the token expired":   {closed.kubeconfig(old), accessExpired},
		"silent":                          {kubeconfigFor("server: '"+silent.URL+"', insecure-skip-tls-verify: false, certificate-authority-data: "+authority(silent), token), accessUnreachable},
		"another certificate":             {kubeconfigFor("server: '"+newAPIServer(t, 200).URL+"', certificate-authority-data: "+stranger, token), accessUntrusted},
		"a command":                       {kubeconfigFor("server: 'https://a.example'", "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, interactiveMode: Never}"), accessUnusable},
		"nothing":                         {"", accessUnusable},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			got, _ := new(probed).ask(t.Context(), []byte(test.kubeconfig), nil)
			if got != test.want || time.Since(begin) > probeTimeout+5*time.Second {
				t.Errorf("%q after %s, want %q", got, time.Since(begin), test.want)
			}
		})
	}
}

func authority(s *httptest.Server) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// TestAccessIsNotAskedAtEveryPass asks a server once in a while, but at once with another kubeconfig.
func TestAccessIsNotAskedAtEveryPass(t *testing.T) {
	server, p := newAPIServer(t, 401), new(probed)
	for range 5 {
		p.ask(t.Context(), []byte(server.kubeconfig("token: old")), nil)
	}
	if got := server.hits.Load(); got != 1 {
		t.Errorf("asked %d times", got)
	}
	p.ask(t.Context(), []byte(server.kubeconfig("token: new")), nil)
	p.ask(t.Context(), []byte(server.kubeconfig("token: new")), nil)
	if got := server.hits.Load(); got != 2 {
		t.Errorf("asked %d times", got)
	}
	new(probed).ask(t.Context(), []byte(server.kubeconfig("token: new")), nil) // of another cluster
	*p = probed{}
	p.ask(t.Context(), []byte(server.kubeconfig("token: new")), nil)
	if got := server.hits.Load(); got != 4 {
		t.Errorf("asked %d times", got)
	}
}
