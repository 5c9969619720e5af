// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// DialFunc opens a network connection, as http.Transport's DialContext does.
type DialFunc = func(ctx context.Context, network, target string) (net.Conn, error)

// Connections holds the connections to workload clusters, by the PortalControlPlane.
type Connections struct {
	// Dial returns what connects to an API server. It refuses the addresses that no API server of a tenant may have.
	Dial      func(server *url.URL) DialFunc
	UserAgent string
	// QPS and Burst limit the requests to each API server, as in rest.Config.
	QPS   float32
	Burst int
	Log   logr.Logger
	// Trim returns the parts of a Node that are kept. A Node wakes the reconciler when one of them has changed.
	Trim func(*corev1.Node) *corev1.Node

	mu    sync.Mutex
	all   map[client.ObjectKey]*Connection
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// Ensure returns the connection with the kubeconfig. For the same kubeconfig it is the same one. Another kubeconfig ends it and
// begins a new one. Ensure does not wait for the API server.
func (c *Connections) Ensure(key client.ObjectKey, kubeconfig []byte) *Connection {
	digest := sha256.Sum256(kubeconfig)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.all[key]; known != nil {
		if known.digest == digest {
			return known
		}
		known.close()
	}
	if c.all == nil {
		c.all = map[client.ObjectKey]*Connection{}
	}
	c.all[key] = c.open(key, kubeconfig)
	c.all[key].digest = digest
	return c.all[key]
}

// Known returns the connection if its kubeconfig has this SHA-256 digest, or nil. A kubeconfig that could not be stored, or whose Secret is
// gone, is used until the manager stops.
func (c *Connections) Known(key client.ObjectKey, digest string) *Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.all[key]; known != nil && hex.EncodeToString(known.digest[:]) == digest {
		return known
	}
	return nil
}

// Drop ends the connection, if there is one.
func (c *Connections) Drop(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.all[key]; known != nil {
		known.close()
		delete(c.all, key)
	}
}

// Source wakes PortalControlPlanes whose API server answers differently than before, or whose Nodes have changed.
func (c *Connections) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue = queue
		return nil
	})
}

func (c *Connections) wake(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue != nil {
		c.queue.Add(reconcile.Request{NamespacedName: key})
	}
}
