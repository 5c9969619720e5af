// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// Options of a world.
type Options struct {
	// Seed decides everything that is left open: which of the things that are due happens first, and all that is drawn.
	Seed uint64
	// Portal are the options of the portal. Workloads and Seed are the world's.
	Portal emulator.Options
	// Faults around the provider.
	Faults Faults
	// App runs in each workload cluster. Default: six Pods, two of which may be missing.
	App app
	// CIDR has clusters get a network of their own with these addresses. Default: the portal makes one with the cluster.
	CIDR string
	// Ties lets all nodes of one job join in the same second, so that their ages say nothing.
	Ties bool
	// Topology runs core's controllers of ClusterClasses, too. They cost CPU time in each life.
	Topology bool
	// WithoutProvider runs core alone. The life takes the provider's part, and what Faults make late is late for core.
	WithoutProvider bool
}

// World is one life: a management cluster with core and the provider, a portal, and its workload clusters.
type World struct {
	*scheduler
	testing.TB
	Options

	Portal *emulator.Portal

	scheme     *runtime.Scheme
	logger     logr.Logger
	handler    *handler
	rights     rights
	management *server
	client     client.Client // of the management cluster, as an administrator
	workloads  *workloads

	webhooks, core, provider *process
	calls                    *operation.Calls // creations of the provider
	incarnation              int              // of the provider, from 1 on
	crashes                  int
	shown                    int64 // changes to the provider's informers

	dice      *rand.Rand // of whatever is nobody's fault
	collector *chore
	events    []Event
	evicted   int
	told      []func(client.ObjectKey) // of kubeconfigs that were written
	watching  []func(change)           // the management cluster, for the life
	looks     []func()                 // at everything, after each step
}

// Run runs a life in a bubble of virtual time.
func Run(t *testing.T, o Options, live func(w *World)) {
	defer func() {
		// core's ssa.NewCache starts a goroutine that never ends, which synctest reports by this panic.
		if p := recover(); p != nil && !strings.Contains(fmt.Sprint(p), "blocked goroutines remain") {
			panic(p)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, o)
		defer w.close()
		w.startWebhooks()
		w.startCore()
		if !o.WithoutProvider {
			w.startProvider()
		}
		live(w)
		if t.Failed() {
			w.Explain()
		}
	})
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, clusterv1beta1.AddToScheme, clusterctlv1.AddToScheme, infrav1.AddToScheme, apiextensionsv1.AddToScheme,
		runtimev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // only a programming error can make it fail
		}
	}
	return scheme
}

func newWorld(t testing.TB, o Options) *World {
	w := &World{scheduler: newScheduler(o.Seed), TB: t, Options: o, scheme: newScheme(), logger: logr.Discard(), dice: newRand(o.Seed, "dice")}
	if w.App == (app{}) {
		w.App = app{Pods: 6, Spare: 2}
	}
	err := feature.MutableGates.Set(fmt.Sprintf("%s=%t", feature.ClusterTopology, o.Topology))
	w.must(err)
	w.handler, err = newHandler()
	w.must(err)
	w.rights, err = readRights()
	w.must(err)
	w.collector = &chore{name: "garbage collector", after: w.upTo(time.Second), do: w.collectGarbage}
	w.chores = []*chore{w.collector}
	w.management = newServer(w.handler, "management", w.managementChanged)
	w.client = w.clientOf(w.management)
	for _, crd := range w.handler.crds {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
		w.must(err)
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		w.management.put(schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}, crd.Name, u)
	}
	w.workloads = &workloads{world: w, all: map[string]*workload{}, cordons: map[string]bool{}}
	o.Portal.Seed, o.Portal.Workloads = int64(o.Seed%1_000_000)+1, w.workloads
	o.Portal.Users = append(slices.Clone(o.Portal.Users), pagesUser)
	w.Portal, err = emulator.New(o.Portal)
	w.must(err)
	return w
}

// clientOf returns a client that may do everything, in no process's name.
func (w *World) clientOf(s *server) client.Client {
	config := &rest.Config{Host: "https://" + s.name, QPS: -1, Transport: transport{server: s}, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
	c, err := client.New(config, client.Options{Scheme: w.scheme, Mapper: w.handler.mapper})
	w.must(err)
	return c
}

func (w *World) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// upTo draws durations below d.
func (w *World) upTo(d time.Duration) func() time.Duration {
	return func() time.Duration { return time.Duration(w.dice.Int64N(int64(d))) }
}

// managementChanged is called with each write to the management cluster, under its lock.
func (w *World) managementChanged(c change) {
	if c.new == nil || c.new.GetDeletionTimestamp() != nil {
		w.ask(w.collector)
	}
	if name, ok := strings.CutSuffix(c.object().GetName(), suffix); ok && c.object().GetKind() == "Secret" {
		for _, tell := range w.told {
			tell(client.ObjectKey{Namespace: c.object().GetNamespace(), Name: name})
		}
	}
	for _, see := range w.watching {
		see(c)
	}
	w.wake()
}

// onKubeconfig calls do with each Cluster whose kubeconfig Secret is written, until the process is dead.
func (w *World) onKubeconfig(p *process, do func(client.ObjectKey)) {
	w.told = append(w.told, func(key client.ObjectKey) {
		if !p.fence.dead.Load() {
			do(key)
		}
	})
}

// noteWrite returns what logs the writes of a process.
func (w *World) noteWrite(by string) func(*http.Request, int) {
	return func(r *http.Request, status int) { w.note("%s: %s %s %d", by, r.Method, r.URL.Path, status) }
}

func (w *World) noteCrash(r *http.Request, write int64, after bool) {
	when := "before"
	if after {
		when = "after"
	}
	w.note("provider %d crashes %s write %d: %s %s", w.incarnation, when, write, r.Method, r.URL.Path)
}

// close ends all goroutines of the world but those that core leaks.
func (w *World) close() {
	for _, p := range []*process{w.provider, w.core, w.webhooks} {
		if p != nil {
			p.stop()
		}
	}
	w.Portal.Close()
	synctest.Wait()
}

// Get reads an object of the management cluster from the store, and reports whether it is there.
func (w *World) Get(key client.ObjectKey, obj client.Object) bool {
	w.Helper()
	gvk, err := apiutil.GVKForObject(obj, w.scheme)
	w.must(err)
	mapping, err := w.handler.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	w.must(err)
	resource := mapping.Resource.GroupResource()
	resource.Group = inside(resource.Group)
	name := prefix(resource) + "/" + key.Name
	if key.Namespace != "" {
		name = prefix(resource) + "/" + key.Namespace + "/" + key.Name
	}
	u := w.management.store.get(name)
	if u == nil {
		return false
	}
	w.must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj))
	return true
}

// List returns all objects of a kind in the store of the management cluster, or of a workload cluster.
func list[T any](w *World, s *server, resource schema.GroupResource) []*T {
	w.Helper()
	all, _ := s.store.list(prefix(schema.GroupResource{Group: inside(resource.Group), Resource: resource.Resource}) + "/")
	var out []*T
	for _, u := range all {
		obj := new(T)
		w.must(runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj))
		out = append(out, obj)
	}
	return out
}

// objects returns the stored objects in the namespace of the cluster, of these kinds if any are named.
func (w *World) objects(kinds ...string) []*unstructured.Unstructured {
	all, _ := w.management.store.list("/")
	return slices.DeleteFunc(all, func(u *unstructured.Unstructured) bool {
		return u.GetNamespace() != namespace || len(kinds) > 0 && !slices.Contains(kinds, u.GetKind())
	})
}

// Create creates an object as a user does.
func (w *World) Create(obj client.Object) {
	w.Helper()
	w.must(w.client.Create(context.Background(), obj))
}

// Delete deletes an object as kubectl does.
func (w *World) Delete(obj client.Object) {
	w.Helper()
	w.must(w.client.Delete(context.Background(), obj, client.PropagationPolicy("Background")))
}

// Edit changes an object as a user does.
func Edit[T client.Object](w *World, key client.ObjectKey, obj T, change func(T)) {
	w.Helper()
	w.must(w.client.Get(context.Background(), key, obj))
	before := obj.DeepCopyObject().(client.Object)
	change(obj)
	w.must(w.client.Patch(context.Background(), obj, client.MergeFrom(before)))
}

// Until lets the world go on until the state is reached. problem says what is not yet so.
func (w *World) Until(what string, atMost time.Duration, problem func() string) {
	w.Helper()
	why, seen := "", [3]uint64{}
	reached := w.goOn(atMost, func() bool { // what has not changed need not be looked at again. The portal changes without a write
		now := [3]uint64{w.management.store.now(), uint64(time.Since(w.start) / time.Second), uint64(w.evicted)}
		if now == seen {
			return false
		}
		seen = now
		why = problem()
		return why == ""
	})
	if !reached {
		w.Explain()
		w.Fatalf("seed %d: not within %s: %s: %s", w.seed, atMost, what, why)
	}
	w.note("%s", what)
}

// Let lets the world go on for a time.
func (w *World) Let(pass time.Duration) { w.goOn(pass, func() bool { return false }) }

// goOn lets the world go on until done holds, for at most the given time, and starts the provider again after each crash. It reports whether
// done holds.
func (w *World) goOn(atMost time.Duration, done func() bool) bool {
	for end := time.Now().Add(atMost); ; {
		dead := func() bool { return w.provider != nil && w.provider.fence.dead.Load() }
		reached := w.run(time.Until(end), func() bool {
			for _, look := range w.looks {
				look()
			}
			return dead() || done()
		})
		if !dead() {
			return reached
		}
		w.Restart()
	}
}

// Restart ends the provider, if it has not crashed, and starts it again with an empty memory.
func (w *World) Restart() {
	if w.provider.fence.dead.Load() {
		w.crashes++
	}
	w.provider.stop()
	synctest.Wait()
	w.startProvider()
}

// Requests are those that changed something at the portal, such as "POST /kubernetes-clusters/{cluster_id}/scale 202".
func (w *World) Requests() (all []string) {
	for _, e := range w.Portal.RequestLog() {
		if e.IsChange() {
			all = append(all, fmt.Sprintf("%s %s %d", e.Method, e.Route, e.Status))
		}
	}
	return all
}

// Explain prints the end of the log, the events, the requests and the objects with their conditions.
func (w *World) Explain() {
	w.mu.Lock()
	log, events := w.log[max(0, len(w.log)-60):], w.events[max(0, len(w.events)-40):]
	w.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", strings.Join(log, "\n"))
	for _, e := range events {
		fmt.Fprintln(&text, e)
	}
	for _, e := range w.Portal.RequestLog() {
		if e.IsChange() {
			fmt.Fprintf(&text, "%s %s %s %d %s\n", e.Time.Sub(w.start), e.Method, e.Route, e.Status, e.Code)
		}
	}
	all, _ := w.management.store.list("/")
	for _, u := range all {
		if u.GetKind() == "CustomResourceDefinition" {
			continue
		}
		fmt.Fprintf(&text, "%s %s deleted=%v finalizers=%v\n", u.GetKind(), u.GetName(), u.GetDeletionTimestamp(), u.GetFinalizers())
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, c := range conditions {
			m, _ := c.(map[string]any)
			fmt.Fprintf(&text, "    %v=%v %v %v\n", m["type"], m["status"], m["reason"], m["message"])
		}
	}
	w.Log(text.String())
}
