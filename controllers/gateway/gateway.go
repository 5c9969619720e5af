// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// Gateway is the reader of kubeconfig Secrets for the ClusterCache, and the listener that the kubeconfigs it returns lead to.
type Gateway struct {
	client.Reader // of the stored Secrets
	hosts         *cloud.Hosts

	listener  net.Listener
	pair      tls.Certificate
	authority []byte // of the listener: kubeconfigs have credentials for https only

	mu       sync.Mutex
	tokens   map[string]*upstream           // by the Authorization header of the requests for it
	clusters map[client.ObjectKey]*upstream // the newest of each Cluster
	tenants  map[string]*tenant             // by namespace
}

const (
	loopback = "127.0.0.1"
	// certificateAge is longer than a manager runs. Each start makes a new certificate.
	certificateAge = 10 * 365 * 24 * time.Hour
)

// New returns a gateway that listens on loopback. It serves after Start.
func New(secrets client.Reader, hosts *cloud.Hosts) (*Gateway, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{Host: loopback, MaxAge: certificateAge})
	if err != nil {
		return nil, fmt.Errorf("make a certificate for connections to workload clusters: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for connections to workload clusters: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for connections to workload clusters: %w", err)
	}
	return &Gateway{
		Reader: secrets, hosts: hosts, listener: listener, pair: pair, authority: certificate,
		tokens: map[string]*upstream{}, clusters: map[client.ObjectKey]*upstream{}, tenants: map[string]*tenant{},
	}, nil
}

// Start serves until ctx is done. It implements manager.Runnable.
func (g *Gateway) Start(ctx context.Context) error {
	server := &http.Server{Handler: g, ReadHeaderTimeout: dialTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	secure := tls.NewListener(g.listener, &tls.Config{Certificates: []tls.Certificate{g.pair}, MinVersion: tls.VersionTLS13})
	defer context.AfterFunc(ctx, func() {
		if err := server.Close(); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to close the gateway to workload clusters")
		}
	})()
	if err := server.Serve(secure); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the gateway to workload clusters: %w", err)
	}
	return nil
}

// Get reads a kubeconfig Secret. The kubeconfig that it returns leads through the gateway.
func (g *Gateway) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := g.Reader.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	stored, ok := obj.(*corev1.Secret)
	if !ok {
		return fmt.Errorf("%T is not a Secret", obj)
	}
	cluster := client.ObjectKey{Namespace: key.Namespace, Name: strings.TrimSuffix(key.Name, "-"+string(secret.Kubeconfig))}
	through, err := g.admit(cluster, stored.Data[secret.KubeconfigDataName])
	if err != nil {
		return fmt.Errorf("kubeconfig Secret %s: %w", key, err)
	}
	stored.Data = map[string][]byte{secret.KubeconfigDataName: through}
	return nil
}

// admit creates the route to the API server that the kubeconfig names, and returns a kubeconfig that leads there through the
// gateway. An earlier route to the same Cluster is closed.
func (g *Gateway) admit(cluster client.ObjectKey, kubeconfig []byte) ([]byte, error) {
	up, err := newUpstream(cluster, kubeconfig, g.hosts)
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	if up.tenant = g.tenants[cluster.Namespace]; up.tenant == nil {
		up.tenant = newTenant()
		g.tenants[cluster.Namespace] = up.tenant
	}
	for bearer, other := range g.tokens {
		if other.cluster == cluster || other.unused() {
			other.transport.CloseIdleConnections()
			delete(g.tokens, bearer)
			delete(g.clusters, other.cluster)
		}
	}
	g.tokens["Bearer "+token], g.clusters[cluster] = up, up
	const name = "gateway"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: "https://" + g.listener.Addr().String(), CertificateAuthorityData: g.authority, DisableCompression: true,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// ServeHTTP forwards a request to the API server that its token belongs to. A token that is not valid any more gets 401, which
// makes the ClusterCache connect again.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	up := g.tokens[r.Header.Get("Authorization")]
	g.mu.Unlock()
	switch {
	case up == nil:
		http.Error(w, "this route to a workload cluster is closed", http.StatusUnauthorized)
	case r.URL.Query().Has("sendInitialEvents"):
		// The size of a streamed list is never known. The client falls back to an ordinary list.
		http.Error(w, "lists are not streamed", http.StatusBadRequest)
	case listsNodes(r) && r.URL.Query().Has("continue"):
		http.Error(w, "lists of Nodes are not paged", http.StatusBadRequest)
	default:
		up.serve(w, r)
	}
}

// Oversized reports whether the last list or watch of the Cluster's Nodes was refused for its size.
func (g *Gateway) Oversized(cluster client.ObjectKey) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	up := g.clusters[cluster]
	return up != nil && up.oversized.Load()
}

// ClockBehind returns how far the clock of the Cluster's API server is behind the manager's, to a second.
func (g *Gateway) ClockBehind(cluster client.ObjectKey) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if up := g.clusters[cluster]; up != nil {
		return time.Duration(up.behind.Load())
	}
	return 0
}
