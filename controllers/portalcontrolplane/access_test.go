// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capportal/cluster-api-provider-portal/controllers/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// apiServer is an API server that a kubeconfig may lead to. Package workload tests how real ones are classified.
type apiServer struct {
	url    string
	access atomic.Value // workload.Access
	hits   atomic.Int32 // connections that passes have asked for
}

// apiServers are those of all tests, by URL.
var apiServers sync.Map

func newAPIServer(t *testing.T, access workload.Access) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.url = fmt.Sprintf("https://%p.example:6443", s)
	s.access.Store(access)
	apiServers.Store(s.url, s)
	t.Cleanup(func() { apiServers.Delete(s.url) })
	return s
}

// kubeconfig leads to the server with the user's part.
func (s *apiServer) kubeconfig(user string) string {
	return kubeconfigs.For("server: '"+s.url+"'", user)
}

// connections are those of a manager. An API server that is not an apiServer answers.
type connections struct {
	connection
	kubeconfig string // of the newest connection
	opened     int
	dropped    []client.ObjectKey
}

// Ensure implements Workloads.
func (w *connections) Ensure(_ client.ObjectKey, content []byte) access.Workload {
	if w.kubeconfig != string(content) {
		w.kubeconfig = string(content)
		w.opened++
	}
	one := w.connection
	config, err := kubeconfig.RESTConfig(content)
	if err != nil {
		one.access = workload.Unusable
		return &one
	}
	if known, found := apiServers.Load(config.Host); found {
		server, _ := known.(*apiServer)
		server.hits.Add(1)
		one.access, _ = server.access.Load().(workload.Access)
	}
	return &one
}

// Known implements Workloads.
func (w *connections) Known(key client.ObjectKey, digest string) access.Workload {
	if kubeconfig.Digest([]byte(w.kubeconfig)) != digest {
		return nil
	}
	return w.Ensure(key, []byte(w.kubeconfig))
}

// Drop implements Workloads.
func (w *connections) Drop(key client.ObjectKey) { w.dropped = append(w.dropped, key) }

// Source implements Workloads.
func (*connections) Source() source.Source { return nil }

// connection is a connection to a workload cluster whose API server is a client.
type connection struct {
	client  client.Client
	access  workload.Access
	version func(question string) string
	behind  time.Duration
}

func (c *connection) Client() client.Client          { return c.client }
func (c *connection) Access() workload.Access        { return c.access }
func (c *connection) Version(question string) string { return c.version(question) }
func (c *connection) ClockBehind() time.Duration     { return c.behind }

func (c *connection) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.client.List(ctx, list, opts...)
}
