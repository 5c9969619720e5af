// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// client-go's handler of a reflector's errors sleeps by a clock outside of the bubbles.
func init() { utilruntime.ErrorHandlers = nil }

const answeredVersion = `{"gitVersion":"v1.35.6"}`

// keyOf is the control plane of a namespace.
func keyOf(namespace string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: "prod"}
}

// kubeconfigOf leads to the API server, and trusts its certificate.
func kubeconfigOf(server, certificate []byte, user string) []byte {
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
		clusters: [{name: c, cluster: {server: '%s', certificate-authority-data: %s}}], users: [{name: u, user: {%s}}]}`, server, authority, user)
}

// fixture is the manager's side of a listening API server that two namespaces share.
type fixture struct {
	*testing.T
	*Connections
	kubeconfig []byte
	// probed makes the API server report its version. Otherwise the Nodes are not watched, and only the test reads them.
	probed bool
	sent   atomic.Int64 // bytes, by the API server
	seen   atomic.Pointer[http.Request]
}

func newFixture(t *testing.T, answer http.HandlerFunc) *fixture {
	t.Helper()
	f := &fixture{T: t}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/version":
			f.seen.Store(r)
			answer(w, r)
		case f.probed:
			answerJSON(answeredVersion)(w, r)
		default:
			w.Header()["Date"] = nil // the test sets the clock
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.CloseClientConnections)
	f.kubeconfig = kubeconfigOf([]byte(server.URL), server.Certificate().Raw, "token: stored")
	f.Connections = newConnections(t, "127.0.0.1") // where the API server is
	return f
}

// newConnections may dial public addresses, and the hosts.
func newConnections(t *testing.T, hosts ...string) *Connections {
	t.Helper()
	allowed, err := cloud.NewHosts(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	c := &Connections{QPS: 20, Burst: 30, Dial: func(server *url.URL) DialFunc { return allowed.DialServer(server) }, Trim: func(n *corev1.Node) *corev1.Node { return n }}
	t.Cleanup(func() {
		for key := range c.all {
			c.Drop(key)
		}
	})
	return c
}

func (f *fixture) connect(namespace string) *Connection {
	return f.Ensure(keyOf(namespace), f.kubeconfig)
}

// list lists the Nodes past those that are kept.
func (f *fixture) list(namespace string) ([]corev1.Node, error) {
	all := &corev1.NodeList{}
	err := f.connect(namespace).Client().List(f.Context(), all)
	return all.Items, err
}

func answerJSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func list(items string) string {
	return `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + items + `]}`
}

// watches answers a watch that nothing happens in, and reports whether the request was one.
func watches(w http.ResponseWriter, r *http.Request) bool {
	if !r.URL.Query().Has("watch") {
		return false
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
	return true
}

// piped is an API server in a bubble of synctest, where time is virtual and nothing may listen.
type piped struct {
	http.Handler
	certificate tls.Certificate
	gone        atomic.Bool // nothing listens
}

func newPiped(t *testing.T, handler http.Handler) *piped {
	t.Helper()
	server := httptest.NewUnstartedServer(nil) // for its certificate
	server.StartTLS()
	server.Close()
	return &piped{Handler: handler, certificate: server.TLS.Certificates[0]}
}

func (p *piped) kubeconfig(user string) []byte {
	return kubeconfigOf([]byte("https://example.com"), p.certificate.Certificate[0], user) // a name in the certificate
}

func (p *piped) dial(*url.URL) DialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		if p.gone.Load() {
			return nil, errors.New("connection refused")
		}
		ours, theirs := net.Pipe()
		server := &http.Server{Handler: p}
		go func() {
			_ = server.Serve(&once{connection: tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{p.certificate}})})
		}()
		return ours, nil
	}
}

// once is a listener with one connection.
type once struct{ connection net.Conn }

func (o *once) Accept() (connection net.Conn, err error) {
	if connection, o.connection = o.connection, nil; connection == nil {
		return nil, io.EOF
	}
	return connection, nil
}

func (*once) Close() error   { return nil }
func (*once) Addr() net.Addr { return &net.UnixAddr{Name: strings.Repeat("p", 4)} }
