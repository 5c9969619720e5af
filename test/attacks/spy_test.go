// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

const loopback = "127.0.0.1"

// spy is a server of the tenant. It records what it receives.
type spy struct {
	*httptest.Server
	ca []byte

	mu       sync.Mutex
	requests []*http.Request
	touched  bool // a client connected
}

// newSpy starts a server with a certificate for its address. If answer is nil, the server answers 404 as an API server does.
func newSpy(t *testing.T, address string, answer http.HandlerFunc) *spy {
	t.Helper()
	ca, err := kubeserver.NewCA("tenant")
	if err != nil {
		t.Fatal(err)
	}
	s := listen(t, address, answer)
	s.ca = ca.PEM()
	pair, err := ca.Serve("tenant", loopback, address, "localhost", "::1", "0.0.0.0")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	return s
}

// newPlainSpy starts a server without TLS.
func newPlainSpy(t *testing.T, address string, answer http.HandlerFunc) *spy {
	t.Helper()
	s := listen(t, address, answer)
	s.Start()
	return s
}

func listen(t *testing.T, address string, answer http.HandlerFunc) *spy {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &spy{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Clone(context.Background()))
		s.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		notFound(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.touched = s.touched || state == http.StateNew
	}
	s.Config.ErrorLog = stdlog.New(io.Discard, "", 0) // the attacks cause refused handshakes
	_ = s.Listener.Close()
	s.Listener = listener
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
}

// apiServer answers as an API server without Nodes.
func apiServer(w http.ResponseWriter, r *http.Request) {
	answer := map[string]string{
		"/":             `{}`,
		"/version":      `{"major": "1", "minor": "35", "gitVersion": "v1.35.6"}`,
		"/api":          `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":         `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
		"/api/v1":       `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "nodes", "kind": "Node", "verbs": ["list", "watch"]}]}`,
		"/api/v1/nodes": `{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}`,
	}[r.URL.Path]
	if answer == "" || r.URL.Query().Has("sendInitialEvents") {
		notFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") == "true" {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, answer)
}

// received reports whether the provider, or else another client, has sent a request that matches.
func (s *spy) received(provider bool, is func(*http.Request) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.requests, func(r *http.Request) bool {
		return strings.HasPrefix(r.UserAgent(), controllers.UserAgent) == provider && is(r)
	})
}

func (s *spy) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touched
}

func (s *spy) port() int { return s.Listener.Addr().(*net.TCPAddr).Port }

func anything(*http.Request) bool { return true }

// carries returns a function that reports whether a request has the text as its bearer token.
func carries(text string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.Contains(r.Header.Get("Authorization"), text) }
}

// kubeconfig returns a kubeconfig for the server. The parameters cluster and user are additional lines in YAML's flow style.
func (s *spy) kubeconfig(cluster, user string) []byte {
	return kubeconfig(s.URL, s.ca, cluster, user)
}

func kubeconfig(server string, ca []byte, cluster, user string) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s%s}}]
users: [{name: u, user: {%s}}]
`, server, base64.StdEncoding.EncodeToString(ca), cluster, user)
}

// servers are the API servers of the portal's clusters for which rows have set one up. Other clusters exist only in the portal's records,
// and their kubeconfigs name a closed port.
type servers struct {
	mu      sync.Mutex
	byName  map[string][]byte // kubeconfigs
	byID    map[string]string // names
	refused []byte            // authority in the kubeconfigs of other clusters
}

// serve has the portal return that kubeconfig for clusters whose name begins with name.
func (s *servers) serve(name string, config []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string][]byte{}
	}
	s.byName[name] = config
}

// Apply implements emulator.Workloads.
func (s *servers) Apply(_ context.Context, want emulator.Workload) ([]emulator.Removal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = map[string]string{}
	}
	s.byID[want.ID] = want.Name
	return nil, nil
}

// Delete implements emulator.Workloads.
func (s *servers) Delete(context.Context, string) error { return nil }

// Kubeconfig implements emulator.Workloads.
func (s *servers) Kubeconfig(_ context.Context, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, config := range s.byName {
		if strings.HasPrefix(s.byID[id], name+"-") {
			return config, nil
		}
	}
	if s.refused == nil {
		ca, err := kubeserver.NewCA("nowhere")
		if err != nil {
			return nil, err
		}
		s.refused = ca.PEM()
	}
	// Port 1 refuses connections at once.
	return kubeconfig("https://127.0.0.1:1/"+id, s.refused, "", "token: canary-token-of-"+id), nil
}
