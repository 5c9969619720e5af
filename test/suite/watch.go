// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	// idle is how long Eventually waits before it evaluates again although no watched object has changed: a watch shows neither the portal nor
	// the Nodes of a workload cluster.
	idle = time.Second
	// burst is the shortest time between two evaluations. In a roll-out, objects change many times a second.
	burst = 200 * time.Millisecond
	// longest is how long Eventually waits if something changes all the time.
	longest = 3 * Patience
)

// watched are the kinds whose changes make Eventually evaluate again.
var watched = []client.Object{
	&clusterv1.Cluster{}, &clusterv1.MachineDeployment{}, &clusterv1.MachineSet{}, &clusterv1.Machine{}, &clusterv1.MachinePool{},
	&infrav1.PortalCluster{}, &infrav1.PortalControlPlane{}, &infrav1.PortalMachine{}, &infrav1.PortalMachinePool{},
}

// Eventually is Gomega's Eventually, but it evaluates a function again when an object in the namespace has changed, and once a second
// otherwise. At a fixed interval, the requests of waiting tests would be half of all requests to the API server. Without a timeout, it fails
// when nothing has changed for Patience: a busy machine makes changes slow, but does not end them.
func (f *Fixture) Eventually(actual any, intervals ...any) types.AsyncAssertion {
	f.Helper()
	assertion := f.WithT.Eventually(f.afterChanges(actual), intervals...).WithPolling(time.Millisecond)
	if len(intervals) == 0 {
		assertion = assertion.WithTimeout(longest)
	}
	return assertion
}

// afterChanges returns a function that waits for a change before it calls actual, except the first time. It returns other values as they are.
func (f *Fixture) afterChanges(actual any) any {
	function := reflect.ValueOf(actual)
	if function.Kind() != reflect.Func {
		return actual
	}
	watch := f.watch()
	var changed <-chan struct{}
	last := time.Now()
	return reflect.MakeFunc(function.Type(), func(in []reflect.Value) []reflect.Value {
		if changed != nil {
			late := time.After(idle)
			time.Sleep(burst)
			select {
			case <-changed:
				last = time.Now()
			case <-late:
			}
			if quiet := time.Since(last); quiet > Patience {
				StopTrying(fmt.Sprintf("no object in namespace %q has changed for %s", f.Namespace, quiet.Round(time.Second))).Now()
			}
		}
		changed = watch.changed()
		if function.Type().IsVariadic() {
			return function.CallSlice(in)
		}
		return function.Call(in)
	}).Interface()
}

// changes reports the changes of objects in one place.
type changes struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change
}

// changed returns a channel that is closed at the next change.
func (c *changes) changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

func (c *changes) report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.next)
	c.next = make(chan struct{})
}

// place is a namespace of a sandbox.
type place struct {
	box       *sandbox.Sandbox
	namespace string
}

// watches are the running watches. Copies of a Fixture share them.
var watches = struct {
	sync.Mutex
	at map[place]*changes
}{at: map[place]*changes{}}

// watch returns the changes in the fixture's namespace. The first call starts the watches, which end with its test.
func (f *Fixture) watch() *changes {
	f.Helper()
	watches.Lock()
	defer watches.Unlock()
	here := place{f.Box, f.Namespace}
	if c := watches.at[here]; c != nil {
		return c
	}
	c := &changes{next: make(chan struct{})}
	watches.at[here] = c
	ctx, end := context.WithCancel(context.WithoutCancel(f.Context()))
	var running sync.WaitGroup
	f.Cleanup(func() {
		end()
		running.Wait()
		watches.Lock()
		defer watches.Unlock()
		delete(watches.at, here)
	})
	informers, err := cache.New(f.Box.Config, cache.Options{
		Scheme: f.Box.Client.Scheme(), Mapper: f.Box.Client.RESTMapper(), DefaultNamespaces: map[string]cache.Config{f.Namespace: {}},
	})
	f.Expect(err).NotTo(HaveOccurred())
	for _, kind := range watched {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			continue // a sandbox without Cluster API
		}
		f.Expect(err).NotTo(HaveOccurred())
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.report() }, UpdateFunc: func(any, any) { c.report() }, DeleteFunc: func(any) { c.report() },
		})
		f.Expect(err).NotTo(HaveOccurred())
	}
	running.Go(func() { _ = informers.Start(ctx) }) // returns nil when ctx ends
	return c
}

// Follow calls see for each object that exists and for each change, until the test ends. A watch that ends earlier may have missed changes, and
// fails the test.
func Follow(t *testing.T, c client.WithWatch, list client.ObjectList, see func(watch.Event), options ...client.ListOption) {
	t.Helper()
	events, err := c.Watch(context.WithoutCancel(t.Context()), list, options...)
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case e, open := <-events.ResultChan():
				if !open || e.Type == watch.Error {
					t.Errorf("the watch of %T ended before the test: %v", list, e.Object)
					return
				}
				see(e)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		events.Stop()
	})
}
