// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/capibehavior/facts"
)

// TestFacts checks each fact about core in a world of its own, without the provider. Core sees one change in four late. The facts judge this world's
// API server, caches and clock, too: test/capibehavior checks the same facts on real servers.
func TestFacts(t *testing.T) {
	for _, fact := range facts.All() {
		t.Run(fact.Name, func(t *testing.T) {
			late := Faults{Stale: 0.25, MostStale: 3 * time.Second}
			taleWith(t, Options{Portal: QuickPortal(), App: app{Spare: 1}, WithoutProvider: true, Faults: late}, func(w *World) {
				defer func() {
					if w.Failed() {
						w.Explain()
					}
				}()
				w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fact.Name}})
				workload, err := w.workloads.open("fact")
				w.must(err)
				w.workloads.set(workload, oldVersion)
				fact.Check(floor{w.TB, w, workload})
			})
		})
	}
}

// floor is a world with one workload cluster, in which the fact takes the part of the portal.
type floor struct {
	testing.TB
	world    *World
	workload *workload
}

// Management implements facts.Floor.
func (f floor) Management() client.Client { return f.world.client }

// Workload implements facts.Floor.
func (f floor) Workload() (client.Client, []byte) {
	kubeconfig, err := f.world.workloads.Kubeconfig(context.Background(), f.workload.id)
	f.world.must(err)
	return f.workload.client, kubeconfig
}

// Eventually implements facts.Floor. Before it evaluates a function again, it lets the world go on until an object has changed, or for a second.
func (f floor) Eventually(actual any, intervals ...any) gomega.AsyncAssertion {
	f.Helper()
	revisions := func() [2]uint64 { return [2]uint64{f.world.management.store.now(), f.workload.store.now()} }
	evaluate, again := reflect.ValueOf(actual), false
	assertion := gomega.NewWithT(f).Eventually(reflect.MakeFunc(evaluate.Type(), func(in []reflect.Value) []reflect.Value {
		if before := revisions(); again {
			f.world.goOn(time.Second, func() bool { return revisions() != before })
		}
		again = true
		return evaluate.Call(in)
	}).Interface(), intervals...)
	return assertion.WithTimeout(Patience).WithPolling(time.Millisecond)
}

// Follow implements facts.Floor. What a world has is all of its fact.
func (f floor) Follow(list client.ObjectList, see func(watch.Event), _ ...client.ListOption) {
	f.Helper()
	server := f.world.management
	if _, ok := list.(*corev1.NodeList); ok {
		server = f.workload.server
	}
	watches := newInformers("fact", server, f.world.scheme)
	server.attach(watches)
	f.world.addCache(watches)
	one, err := watches.informer(list)
	f.world.must(err)
	show := func(kind watch.EventType, obj any) { see(watch.Event{Type: kind, Object: obj.(client.Object)}) }
	_, err = one.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { show(watch.Added, obj) },
		UpdateFunc: func(_, obj any) { show(watch.Modified, obj) },
		DeleteFunc: func(obj any) { show(watch.Deleted, obj) },
	})
	f.world.must(err)
}
