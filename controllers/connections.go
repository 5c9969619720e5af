// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/fair"
	"github.com/capportal/cluster-api-provider-portal/controllers/gateway"
	"github.com/capportal/cluster-api-provider-portal/controllers/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane"
)

// connections makes Cluster API's ClusterCache connect to workload clusters, and connect again when a kubeconfig has changed. The
// ClusterCache offers no call for that. On its own it takes up to 80 s: it gives a connection up after 5 failed probes of 10 s,
// and tries again after 30 s. But it drops a Cluster that its filter does not admit, and connects at once to one that it does not
// know. So the filter rejects the Cluster once and admits it the next time.
type connections struct {
	mu    sync.Mutex
	stale map[client.ObjectKey]bool
	queue workqueue.TypedRateLimitingInterface[reconcile.Request] // of the ClusterCache. It is nil until the ClusterCache runs

	gateway *gateway.Gateway // to the API servers
}

// setup adds the ClusterCache to the manager.
func (c *connections) setup(ctx context.Context, mgr ctrl.Manager, options Options, hosts *cloud.Hosts) (clustercache.ClusterCache, error) {
	var err error
	if c.gateway, err = gateway.New(kubeconfig.Reader{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}, hosts); err != nil {
		return nil, err
	}
	if err := mgr.Add(c.gateway); err != nil {
		return nil, fmt.Errorf("add the gateway to workload clusters: %w", err)
	}
	queues := fair.Workers(options.ClusterCacheConcurrency)
	queues.NewQueue = c.keep(queues.NewQueue)
	workloads, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient:     c.gateway,
		WatchFilterValue: options.WatchFilterValue,
		ClusterFilter:    c.admit,
		Client:           clustercache.ClientOptions{UserAgent: UserAgent},
		Cache:            portalcontrolplane.NodeCache(),
	}, queues)
	if err != nil {
		return nil, fmt.Errorf("set up the connections to workload clusters: %w", err)
	}
	return workloads, nil
}

type newQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

// keep remembers the queue that makeQueue returns.
func (c *connections) keep(makeQueue newQueue) newQueue {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue = makeQueue(name, limiter)
		return c.queue
	}
}

// admit is the filter of the ClusterCache. It admits the Clusters of PortalControlPlanes as soon as their kubeconfig exists, but
// not one whose connection is to be dropped. That Cluster is queued again right after the ClusterCache has dropped the
// connection.
func (c *connections) admit(cluster *clusterv1.Cluster) bool {
	if cluster.Spec.ControlPlaneRef.Kind != "PortalControlPlane" || !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return false
	}
	key := client.ObjectKeyFromObject(cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stale[key] {
		return true
	}
	delete(c.stale, key)
	c.queue.Add(reconcile.Request{NamespacedName: key})
	return false
}

// reconnect drops the connection to the Cluster, if one exists, and makes a new one with the stored kubeconfig.
func (c *connections) reconnect(cluster client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue == nil {
		return // there is no connection yet
	}
	if c.stale == nil {
		c.stale = map[client.ObjectKey]bool{}
	}
	c.stale[cluster] = true
	c.queue.Add(reconcile.Request{NamespacedName: cluster})
}
