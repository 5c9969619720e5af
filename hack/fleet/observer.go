// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// observer records when each cluster first reached each milestone.
type observer struct {
	cache cache.Cache

	mu    sync.Mutex
	times map[milestone]map[client.ObjectKey]time.Time // of Clusters
}

// milestone is a state that a cluster reaches.
type milestone string

const (
	hasKubeconfig milestone = "kubeconfig"
	isAvailable   milestone = "available"
	notAvailable  milestone = "no longer available"
	workersReady  milestone = "workers ready" // the first Machine, which is the only one until a tenant scales
)

func watched() []client.Object {
	return []client.Object{
		&clusterv1.Cluster{}, &clusterv1.MachineDeployment{}, &clusterv1.Machine{},
		&infrav1.PortalCluster{}, &infrav1.PortalControlPlane{}, &infrav1.PortalMachineTemplate{}, &infrav1.PortalMachine{},
	}
}

func newObserver(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (*observer, error) {
	all, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	o := &observer{cache: all, times: map[milestone]map[client.ObjectKey]time.Time{hasKubeconfig: {}, isAvailable: {}, notAvailable: {}, workersReady: {}}}
	go func() { _ = all.Start(ctx) }()
	for _, kind := range watched() {
		informer, err := all.GetInformer(ctx, kind)
		if err != nil {
			return nil, err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: o.see, UpdateFunc: func(_, object any) { o.see(object) }})
		if err != nil {
			return nil, err
		}
	}
	if !all.WaitForCacheSync(ctx) {
		return nil, errors.New("the observer's caches do not fill")
	}
	return o, nil
}

func (o *observer) see(object any) {
	switch object := object.(type) {
	case *infrav1.PortalControlPlane:
		if conditions.IsTrue(object, infrav1.KubeconfigReadyCondition) {
			o.note(hasKubeconfig, object)
		}
		o.noteAvailable(object, conditions.IsTrue(object, infrav1.AvailableCondition))
	case *clusterv1.Machine:
		if conditions.IsTrue(object, clusterv1.MachineReadyCondition) {
			o.note(workersReady, object)
		}
	}
}

// note records the time of the milestone, unless the object reached it before.
func (o *observer) note(what milestone, object client.Object) {
	key := keyOf(object)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.times[what][key].IsZero() {
		o.times[what][key] = time.Now()
	}
}

// noteAvailable records when the control plane became available, and when it stopped being available.
func (o *observer) noteAvailable(object client.Object, available bool) {
	o.mu.Lock()
	was := !o.times[isAvailable][keyOf(object)].IsZero()
	o.mu.Unlock()
	switch {
	case available:
		o.note(isAvailable, object)
	case was:
		o.note(notAvailable, object)
	}
}

// keyOf returns the Cluster that an object belongs to.
func keyOf(object client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetLabels()[clusterv1.ClusterNameLabel]}
}

// forget drops the recorded times of a milestone.
func (o *observer) forget(what milestone) {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.times[what])
}

// count returns how many clusters have reached the milestone.
func (o *observer) count(what milestone) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.times[what])
}

// in returns when each cluster of a namespace reached the milestone, by name.
func (o *observer) in(namespace string, what milestone) map[string]time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	times := map[string]time.Time{}
	for key, at := range o.times[what] {
		if key.Namespace == namespace {
			times[key.Name] = at
		}
	}
	return times
}

// wait waits until count clusters of the namespace have reached the milestone, and returns the time.
func (b *bench) wait(ctx context.Context, namespace string, what milestone, count int) error {
	said := time.Now()
	for {
		have := len(b.observer.in(namespace, what))
		if have >= count {
			return nil
		}
		if time.Since(said) > 20*time.Second {
			b.say("%s, %s: %d of %d", namespace, what, have, count)
			said = time.Now()
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits for d, or returns the context's error if the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
