// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GetInformer implements cache.Informers.
func (c *informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return c.informer(obj)
}

// GetInformerForKind implements cache.Informers.
func (c *informers) GetInformerForKind(_ context.Context, gvk schema.GroupVersionKind, _ ...cache.InformerGetOption) (cache.Informer, error) {
	obj, err := c.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	return c.informer(obj)
}

// RemoveInformer implements cache.Informers.
func (c *informers) RemoveInformer(_ context.Context, obj client.Object) error {
	key, err := c.keyOf(obj)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, key)
	return nil
}

// Start implements cache.Informers.
func (c *informers) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// WaitForCacheSync implements cache.Informers.
func (c *informers) WaitForCacheSync(context.Context) bool { return true }

type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (registration) HasSynced() bool { return true }

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.of.mu.Lock()
	i.handlers = append(i.handlers, h)
	var all []client.Object
	for _, key := range sortedKeys(i.objects) {
		all = append(all, i.objects[key])
	}
	i.of.mu.Unlock()
	for _, obj := range all {
		h.OnAdd(obj, true)
	}
	return registration{}, nil
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// HasSynced implements cache.Informer.
func (i *informer) HasSynced() bool { return true }

// IsStopped implements cache.Informer.
func (i *informer) IsStopped() bool { return false }

// AddIndexers implements cache.Informer.
func (i *informer) AddIndexers(toolscache.Indexers) error { return nil }

// GetStore implements cache.SharedInformer.
func (i *informer) GetStore() toolscache.Store { return readUpTo{informer: i} }

// readUpTo is a store that says only how far its informer has read. Core waits for its own writes to be read.
type readUpTo struct {
	toolscache.Store
	informer *informer
}

// LastStoreSyncResourceVersion implements cache.Store.
func (r readUpTo) LastStoreSyncResourceVersion() string {
	r.informer.of.mu.Lock()
	defer r.informer.of.mu.Unlock()
	return strconv.FormatUint(max(r.informer.revision, 1), 10)
}
