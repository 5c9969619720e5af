// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
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
				fact.Check(newFloor(w, fact.Name))
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

func newFloor(w *World, namespace string) floor {
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	workload, err := w.workloads.open("fact")
	w.must(err)
	w.workloads.set(workload, oldVersion)
	return floor{w.TB, w, workload}
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

// written are histories of the real core, which the model of core in package claims is compared with.
const written = "../../controllers/portalcontrolplane/workers/claims/testdata/core.txt"

var (
	histories = flag.Uint64("histories", 2, "how many histories of the real core to compare with "+written)
	update    = flag.Bool("update", false, "write these histories instead")
)

// TestModelOfCore lets the real core act on drawn changes, and compares what comes of them with the file that package claims' TestModelIsLikeCore
// reads.
func TestModelOfCore(t *testing.T) {
	var text strings.Builder
	for seed := range *histories {
		taleWith(t, Options{Portal: QuickPortal(), App: app{Spare: 1}, WithoutProvider: true}, func(w *World) {
			lines := facts.History(newFloor(w, "drawn"), seed, 20, func() { w.Let(time.Minute) })
			fmt.Fprintf(&text, "%s\n\n", strings.Join(lines, "\n"))
		})
	}
	if *update {
		if err := os.WriteFile(written, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(written)
	if err != nil || !strings.HasPrefix(string(is), text.String()) {
		t.Errorf("%s is not what core does (%v). To see the difference: go -C test/world test . -vet=off -run TestModelOfCore -update -histories 20", written, err)
	}
}
