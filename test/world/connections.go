// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	reached "github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
)

// connections are the provider's ways to workload clusters, in place of package controllers/portalcontrolplane/access/workload, which needs a network.
type connections struct {
	process *process
	mu      sync.Mutex
	all     map[client.ObjectKey]*connection
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// connection is the way to one cluster with one kubeconfig.
type connection struct {
	of         *connections
	key        client.ObjectKey
	kubeconfig []byte
	live       client.Client
	nodes      *informers
	to         *workload // nil: the kubeconfig names no cluster that there is
}

func newConnections(p *process) *connections {
	c := &connections{process: p, all: map[client.ObjectKey]*connection{}}
	p.world.workloads.listen(p, func(id string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for key, one := range c.all {
			if one.to != nil && one.to.id == id {
				c.wake(key)
			}
		}
	})
	return c
}

// wake is called with the lock.
func (c *connections) wake(key client.ObjectKey) {
	if c.queue != nil {
		c.queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// Ensure implements access.Workloads.
func (c *connections) Ensure(key client.ObjectKey, kubeconfig []byte) access.Connection {
	c.mu.Lock()
	known := c.all[key]
	c.mu.Unlock()
	if known != nil && bytes.Equal(known.kubeconfig, kubeconfig) {
		return known
	}
	c.Drop(key)
	one := &connection{of: c, key: key, kubeconfig: kubeconfig, to: c.process.world.workloads.of(kubeconfig)}
	if one.to != nil {
		one.open()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[key] = one
	return one
}

// open begins to watch the cluster's Nodes. Those that changed in a way that the provider looks at wake it.
func (one *connection) open() {
	w := one.of.process.world
	one.nodes = one.of.process.newInformers("/"+one.to.id, one.to.server)
	var err error
	one.live, err = client.New(one.of.process.config(one.to.server, nil), client.Options{Scheme: w.scheme, Mapper: w.handler.mapper})
	w.must(err)
	nodes, err := one.nodes.informer(&corev1.Node{})
	w.must(err)
	wake := func() {
		one.of.mu.Lock()
		defer one.of.mu.Unlock()
		one.of.wake(one.key)
	}
	_, err = nodes.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake() },
		DeleteFunc: func(any) { wake() },
		UpdateFunc: func(before, after any) {
			if !reflect.DeepEqual(workers.TrimNode(before.(*corev1.Node)), workers.TrimNode(after.(*corev1.Node))) {
				wake()
			}
		},
	})
	w.must(err)
}

// Known implements access.Workloads.
func (c *connections) Known(key client.ObjectKey, digest string) access.Connection {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.all[key]
	if one == nil {
		return nil
	}
	if sum := sha256.Sum256(one.kubeconfig); hex.EncodeToString(sum[:]) != digest {
		return nil
	}
	return one
}

// Drop implements access.Workloads.
func (c *connections) Drop(key client.ObjectKey) {
	c.mu.Lock()
	one := c.all[key]
	delete(c.all, key)
	c.mu.Unlock()
	if one != nil && one.nodes != nil {
		c.process.drop(one.nodes)
	}
}

// Source implements access.Workloads.
func (c *connections) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue = queue
		return nil
	})
}

// Health implements access.Connection.
func (one *connection) Health() reached.Health {
	if !one.of.process.world.workloads.answers(one.to) {
		return reached.Unreachable
	}
	return reached.Working
}

// Version implements access.Connection.
func (one *connection) Version(string) string {
	return one.of.process.world.workloads.versionOf(one.to)
}

// Client implements access.Connection.
func (one *connection) Client() client.Client { return one.live }

// ClockBehind implements access.Connection.
func (one *connection) ClockBehind() time.Duration { return 0 }

// List implements access.Connection.
func (one *connection) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return one.nodes.List(ctx, list, opts...)
}
