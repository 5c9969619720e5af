// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/kubeconfig"
)

// access is how the API server of a workload cluster reacts to the stored kubeconfig. It is one word and no detail: conditions
// can be read by the people who choose the address in the kubeconfig, and must not show them the manager's network.
type access string

const (
	// working: the ClusterCache is connected, and its probes succeed. The API server is not asked.
	accessWorking access = ""
	// renewed: the kubeconfig was replaced in this pass. The ClusterCache connects again.
	accessRenewed access = "renewed"
	// answering: the API server accepts the kubeconfig, and the ClusterCache is not connected, or not any more.
	accessAnswering access = "answering"
	// unreachable: no usable answer arrives in time.
	accessUnreachable access = "unreachable"
	// unauthorized: the API server refuses the credentials.
	accessUnauthorized access = "unauthorized"
	// expired: like unauthorized or unreachable, and the credentials have expired.
	accessExpired access = "expired"
	// untrusted: the API server's certificate does not verify.
	accessUntrusted access = "untrusted"
	// unusable: the content of the Secret is not an allowed kubeconfig.
	accessUnusable access = "unusable"
	// changed: the Secret does not hold the kubeconfig that the provider stored last. The API server is not asked.
	accessChanged access = "changed"
)

// failing reports whether another kubeconfig may help.
func (a access) failing() bool {
	return a != accessWorking && a != accessRenewed && a != accessAnswering
}

const (
	// probeTimeout bounds the one request of a pass to an API server that may not answer. A pass occupies a worker that other
	// clusters need.
	probeTimeout = 2 * time.Second
	// probePause is how long the answer of a probe counts. Many events wake a pass.
	probePause = 5 * time.Second
)

// probed is the last answer of an API server. The zero value is ready to use.
type probed struct {
	config [sha256.Size]byte // of the kubeconfig that was tried
	access access
	at     time.Time
	since  time.Time // when this was first the answer

	reconnected time.Time // when the ClusterCache was last made to connect again
}

// ask returns how the API server reacts to the kubeconfig, and since when. It sends one request, unless it did so a moment ago.
func (p *probed) ask(ctx context.Context, content []byte, hosts *cloud.Hosts) (access, time.Time) {
	sum := sha256.Sum256(content)
	if p.config == sum && time.Since(p.at) < probePause {
		return p.access, p.since
	}
	config, err := kubeconfig.RESTConfig(content)
	if err != nil {
		return accessUnusable, time.Now()
	}
	seen := probe(ctx, config, hosts)
	if expires := expiry(config); seen.failing() && !expires.IsZero() && time.Now().After(expires) {
		seen = accessExpired
	}
	if p.config != sum || p.access != seen {
		p.since = time.Now()
	}
	p.config, p.access, p.at = sum, seen, time.Now()
	return seen, p.since
}

// mayReconnect reports whether the ClusterCache may be made to connect again. It drops the connection that it has or is making,
// so it gets the time that an attempt may take.
func (p *probed) mayReconnect() bool {
	if time.Since(p.reconnected) < connectionRetry {
		return false
	}
	p.reconnected = time.Now()
	return true
}

// probe asks the API server for its root, as the ClusterCache does.
func probe(ctx context.Context, config *rest.Config, hosts *cloud.Hosts) access {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return accessUnusable
	}
	transport, err := probeTransport(config, hosts.DialServer(server))
	if err != nil {
		return accessUnusable
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.String(), nil)
	if err != nil {
		return accessUnusable
	}
	response, err := transport.RoundTrip(request) // RoundTrip follows no redirects
	if err != nil {
		return classify(err)
	}
	_ = response.Body.Close() // the body is not read
	switch response.StatusCode {
	case http.StatusOK:
		return accessAnswering
	case http.StatusUnauthorized, http.StatusForbidden:
		return accessUnauthorized
	}
	return accessUnreachable // the API server is starting, or another server listens there
}

// probeTransport has its own connection, so a probe never uses one that was opened before the server or its certificate changed.
func probeTransport(config *rest.Config, dial func(ctx context.Context, network, target string) (net.Conn, error)) (http.RoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return rest.HTTPWrappersForConfig(config, &http.Transport{
		TLSClientConfig: tlsConfig, Proxy: http.ProxyFromEnvironment, DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
	})
}

// classify returns the access for a request without an answer.
func classify(err error) access {
	var verification *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &verification):
		return accessUntrusted
	case errors.As(err, &op) && op.Op == "remote error":
		return accessUnauthorized // a TLS alert: the server refuses the client certificate in the handshake
	}
	return accessUnreachable
}
