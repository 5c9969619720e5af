// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	coresetup "sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// clusterCache is core's way to workload clusters, in place of core's own, which makes its HTTP client from a kubeconfig.
type clusterCache struct {
	clustercache.ClusterCache
	process   *process
	mu        sync.Mutex
	all       map[string]*clusterAccess // by the portal's id
	listeners []func(client.ObjectKey)
}

type clusterAccess struct {
	nodes            *informers
	cached, uncached client.Client
	watches          map[string]bool
}

// suffix of the names of kubeconfig Secrets.
const suffix = "-kubeconfig"

// watchSecrets tells the listeners which cluster can be reached, or cannot any more.
func (c *clusterCache) watchSecrets() {
	w := c.process.world
	w.workloads.listen(c.process, func(id string) {
		for key := range w.kubeconfigs() {
			if one := w.workloads.of(w.kubeconfig(key)); one == nil || one.id == id {
				c.tell(key)
			}
		}
	})
	w.onKubeconfig(c.process, c.tell)
}

func (c *clusterCache) tell(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tell := range c.listeners {
		tell(key)
	}
}

// kubeconfigs are the Clusters that have a kubeconfig.
func (w *World) kubeconfigs() map[client.ObjectKey]bool {
	all := map[client.ObjectKey]bool{}
	for _, u := range w.management.store.all() {
		if name, ok := strings.CutSuffix(u.GetName(), suffix); ok && u.GetKind() == "Secret" {
			all[client.ObjectKey{Namespace: u.GetNamespace(), Name: name}] = true
		}
	}
	return all
}

// kubeconfig of a Cluster, or nil.
func (w *World) kubeconfig(cluster client.ObjectKey) []byte {
	secret := &corev1.Secret{}
	if !w.Get(client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + suffix}, secret) {
		return nil
	}
	return secret.Data["value"]
}

// reach returns the way to the Cluster's workload cluster.
func (c *clusterCache) reach(cluster client.ObjectKey) (*clusterAccess, error) {
	w := c.process.world
	one := w.workloads.of(w.kubeconfig(cluster))
	if !w.workloads.answers(one) {
		return nil, clustercache.ErrClusterNotConnected
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.all[one.id]; known != nil {
		return known, nil
	}
	reached := &clusterAccess{nodes: c.process.newInformers("/"+one.id, one.server), watches: map[string]bool{}}
	reached.nodes.delay = c.process.cache.delay
	reached.nodes.indexes[corev1.SchemeGroupVersion.WithKind("Node")] = map[string]client.IndexerFunc{index.NodeProviderIDField: index.NodeByProviderID}
	var err error
	config := c.process.config(one.server, nil)
	disabled := coresetup.ClusterCacheClientOptions("core", 1, 1).Cache.DisableFor
	reached.cached, err = client.New(config, client.Options{Scheme: w.scheme, Mapper: w.handler.mapper, Cache: &client.CacheOptions{Reader: reached.nodes, DisableFor: disabled}})
	if err != nil {
		return nil, err
	}
	reached.uncached, err = client.New(config, client.Options{Scheme: w.scheme, Mapper: w.handler.mapper})
	c.all[one.id] = reached
	return reached, err
}

// GetClient implements clustercache.ClusterCache.
func (c *clusterCache) GetClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	one, err := c.reach(cluster)
	if err != nil {
		return nil, err
	}
	return one.cached, nil
}

// GetReader implements clustercache.ClusterCache.
func (c *clusterCache) GetReader(ctx context.Context, cluster client.ObjectKey) (client.Reader, error) {
	return c.GetClient(ctx, cluster)
}

// GetUncachedClient implements clustercache.ClusterCache.
func (c *clusterCache) GetUncachedClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	one, err := c.reach(cluster)
	if err != nil {
		return nil, err
	}
	return one.uncached, nil
}

// GetRESTConfig implements clustercache.ClusterCache.
func (c *clusterCache) GetRESTConfig(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	w := c.process.world
	one := w.workloads.of(w.kubeconfig(cluster))
	if !w.workloads.answers(one) {
		return nil, clustercache.ErrClusterNotConnected
	}
	return c.process.config(one.server, nil), nil
}

// Watch implements clustercache.ClusterCache.
func (c *clusterCache) Watch(_ context.Context, cluster client.ObjectKey, watcher clustercache.Watcher) error {
	one, err := c.reach(cluster)
	if err != nil {
		return err
	}
	c.mu.Lock()
	known := one.watches[watcher.Name()+cluster.String()]
	one.watches[watcher.Name()+cluster.String()] = true
	c.mu.Unlock()
	if known {
		return nil
	}
	return watcher.Watch(one.nodes)
}

// GetHealthCheckingState implements clustercache.ClusterCache.
func (c *clusterCache) GetHealthCheckingState(_ context.Context, cluster client.ObjectKey) clustercache.HealthCheckingState {
	if _, err := c.reach(cluster); err != nil {
		return clustercache.HealthCheckingState{}
	}
	return clustercache.HealthCheckingState{LastProbeTime: time.Now(), LastProbeSuccessTime: time.Now()}
}

// GetClusterSource implements clustercache.ClusterCache.
func (c *clusterCache) GetClusterSource(_ string, mapFunc func(context.Context, client.Object) []ctrl.Request, _ ...clustercache.GetClusterSourceOption) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.listeners = append(c.listeners, func(key client.ObjectKey) {
			for _, r := range mapFunc(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}) {
				queue.Add(r)
			}
		})
		return nil
	})
}
