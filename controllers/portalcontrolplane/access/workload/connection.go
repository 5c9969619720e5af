// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/kubeconfig"
)

// Health is how the API server of a workload cluster reacts to a kubeconfig. It is one word and no detail: conditions can be read
// by the people who choose the address in the kubeconfig, and must not show them the manager's network.
type Health string

const (
	// Working: the API server reports its version, and does not refuse its Nodes.
	Working Health = ""
	// Connecting: the first answer has not arrived.
	Connecting Health = "connecting"
	// Unreachable: no usable answer arrives in time.
	Unreachable Health = "unreachable"
	// Unauthorized: the API server refuses the credentials.
	Unauthorized Health = "unauthorized"
	// Untrusted: the API server's certificate does not verify.
	Untrusted Health = "untrusted"
	// Unusable: it is not an allowed kubeconfig, so no API server is asked.
	Unusable Health = "unusable"
)

// Failing reports whether another kubeconfig may help.
func (h Health) Failing() bool { return h != Working && h != Connecting }

const (
	// probeInterval is how often an API server is asked for its version. After a loss it is asked after a second, and then ever less often,
	// because an API server that restarts is back soon.
	probeInterval = 10 * time.Second
	// probeTimeout bounds each of these requests.
	probeTimeout = 5 * time.Second
	// maxVersion is far above the size of a version.
	maxVersion = 64 << 10
)

// Connection is the way to one workload cluster with one kubeconfig.
type Connection struct {
	digest    [sha256.Size]byte // of the kubeconfig
	log       logr.Logger
	wake      func()
	trim      func(*corev1.Node) *corev1.Node
	url       string // of the version
	transport *transport
	client    client.Client
	lister    *nodeLister

	mu        sync.Mutex
	health    Health
	refused   bool   // the Nodes, to these credentials
	oversized bool   // the list of Nodes
	version   string // empty if no answer to the question has arrived
	question  string
	asking    bool
	timer     *time.Timer // of the next probe
	since     time.Time   // when health changed
	closed    bool
	nodes     *nodes
	unwatch   context.CancelFunc // nil if the Nodes are not watched
}

// open begins a connection.
func (c *Connections) open(key client.ObjectKey, content []byte) *Connection {
	one := &Connection{
		log: c.Log.WithValues("PortalControlPlane", key), wake: func() { c.wake(key) }, trim: c.Trim, health: Connecting,
	}
	one.nodes = newNodes(one.trim, one.wake)
	config, err := kubeconfig.RESTConfig(content)
	var server *url.URL
	if err == nil {
		config.UserAgent, config.QPS, config.Burst, config.ContentType = c.UserAgent, c.QPS, c.Burst, "application/json"
		server, _, err = rest.DefaultServerUrlFor(config)
	}
	if err == nil {
		one.url = server.JoinPath("version").String()
		one.transport, err = newTransport(config, c.Dial(server))
	}
	if err == nil {
		one.client, one.lister, err = newClients(config, one.transport)
	}
	if err != nil {
		one.health = Unusable
		return one
	}
	one.lister.answered = one.listed
	one.mu.Lock()
	defer one.mu.Unlock()
	one.timer = time.AfterFunc(0, one.probe)
	return one
}

// Client reads and writes at the API server, past the Nodes that are kept.
func (c *Connection) Client() client.Client { return c.client }

// ErrOversized means that the API server has more Nodes than are read.
var ErrOversized = errors.New("the list of Nodes is too large")

// List lists the Nodes that are kept. It waits for the first list until ctx ends.
func (c *Connection) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.mu.Lock()
	kept, oversized := c.nodes, c.oversized
	c.mu.Unlock()
	if oversized || kept.count() > MaxObjects {
		return ErrOversized
	}
	return kept.List(ctx, list, opts...)
}

// Health returns how the API server reacts to the kubeconfig.
func (c *Connection) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.health == Working && c.refused {
		return Unauthorized
	}
	return c.health
}

// Version returns the version that the API server has reported after the question was first put, or "". The question names what may
// have changed the version.
func (c *Connection) Version(question string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.question != question {
		c.question, c.version = question, ""
		if !c.asking && c.timer != nil {
			c.timer.Reset(0)
		}
	}
	return c.version
}

// ClockBehind returns how far the clock of the API server is behind the manager's, to a second.
func (c *Connection) ClockBehind() time.Duration { return time.Duration(c.transport.behind.Load()) }

// probe asks the API server for its version, and comes again.
func (c *Connection) probe() {
	c.mu.Lock()
	question := c.question
	c.asking = true
	c.mu.Unlock()
	found, health, err := c.ask()
	if health != Working {
		c.transport.plain.CloseIdleConnections() // the next probe finds a server that has moved, or has another certificate
	}
	if c.settle(question, found, health, err) {
		c.wake()
	}
}

// settle records an answer, and reports whether it is news. The Nodes are watched while the API server answers. A watch from before
// may hang on a connection that is dead.
func (c *Connection) settle(question, found string, health Health, err error) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.asking = false
	news = health != c.health || found != c.version
	if health != c.health {
		c.report(health, err)
		c.since = time.Now()
	}
	c.health = health
	if health == Working {
		c.timer.Reset(probeInterval)
		c.watch()
	} else {
		c.timer.Reset(min(max(time.Since(c.since), time.Second), probeInterval))
		c.stopWatch()
	}
	if c.question == question {
		c.version = found
	} else {
		c.timer.Reset(0) // the answer may be from before the question
	}
	return news
}

func (c *Connection) report(health Health, err error) {
	if health == Working {
		c.log.Info("Connected")
		return
	}
	message := "Cannot connect"
	if c.health == Working {
		message = "Disconnected"
	}
	c.log.Info(message, "reason", health, "err", err)
}

// watch begins to watch the Nodes, unless they are watched.
func (c *Connection) watch() {
	if c.unwatch != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.unwatch = cancel
	reflector := cache.NewReflectorWithOptions(c.lister, &corev1.Node{}, c.nodes, cache.ReflectorOptions{Name: "Nodes", Logger: &c.log})
	go reflector.RunWithContext(ctx)
}

// stopWatch ends the watch, and forgets the Nodes.
func (c *Connection) stopWatch() {
	if c.unwatch == nil {
		return
	}
	c.unwatch()
	c.unwatch, c.refused, c.oversized, c.nodes = nil, false, false, newNodes(c.trim, c.wake)
}

// listed records whether the API server refuses the Nodes to the credentials, while its version is for everyone, or has too many.
func (c *Connection) listed(err error) {
	refused, oversized := apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err), errors.Is(err, errTooLarge)
	c.mu.Lock()
	news := c.refused != refused || c.oversized != oversized
	c.refused, c.oversized = refused, oversized
	c.mu.Unlock()
	if news {
		c.wake()
	}
}

// close ends the connection.
func (c *Connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
		c.stopWatch()
		c.transport.plain.CloseIdleConnections()
	}
}

// ask sends one request for the version.
func (c *Connection) ask() (string, Health, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return "", Unusable, err
	}
	answer, err := c.transport.RoundTrip(request) // which follows no redirects
	if err != nil {
		return "", classify(err), err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxVersion))
	switch {
	case err != nil:
		return "", Unreachable, err
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return "", Unauthorized, errors.New(answer.Status)
	case answer.StatusCode != http.StatusOK:
		return "", Unreachable, errors.New(answer.Status) // the API server is starting, or another server listens there
	}
	info := &version.Info{}
	if err := json.Unmarshal(body, info); err != nil || info.GitVersion == "" {
		return "", Unreachable, errors.New("the API server does not report its version")
	}
	return info.GitVersion, Working, nil
}

// classify returns the health for a request without an answer.
func classify(err error) Health {
	var verification *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &verification):
		return Untrusted
	case errors.As(err, &op) && op.Op == "remote error":
		return Unauthorized // a TLS alert: the server refuses the client certificate in the handshake
	}
	return Unreachable
}
