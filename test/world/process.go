// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// process is a manager that runs: controller-runtime's, with the real controllers in it. Its work queues and its cache are the scheduler's.
type process struct {
	ctrl.Manager
	name      string
	world     *World
	fence     *fence
	rights    rights
	cache     *informers
	caches    []*informers // that one, and those of workload clusters
	runnables []manager.Runnable
	hooks     *webhookServer
	cancel    context.CancelFunc
	ended     sync.WaitGroup
	queues    []*queue
}

// options of a process.
type processOptions struct {
	client    client.Options
	transform toolscache.TransformFunc
	rights    rights
	fence     *fence
	delay     func() (late time.Duration, lost bool)
}

// startProcess makes a manager, lets setup add controllers to it, and starts them.
func (w *World) startProcess(name string, o processOptions, setup func(ctx context.Context, p *process) error) *process {
	p := &process{name: name, world: w, fence: o.fence, rights: o.rights, hooks: &webhookServer{all: map[string]http.Handler{}, mux: http.NewServeMux()}}
	if p.fence == nil {
		p.fence = &fence{}
	}
	p.cache = p.newInformers("", w.management)
	p.cache.transform, p.cache.rights = o.transform, o.rights
	if o.delay != nil {
		p.cache.delay = o.delay
	}
	var err error
	p.Manager, err = ctrl.NewManager(p.config(w.management, o.rights), ctrl.Options{
		Scheme: w.scheme, Logger: w.logger, Client: o.client, WebhookServer: p.hooks,
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return p.cache, nil },
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return w.management.mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: new(true)},
	})
	w.must(err)
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(context.Background(), w.logger))
	p.cancel = cancel
	if err := setup(ctx, p); err != nil {
		cancel()
		w.Fatalf("set up %s: %v", name, err)
	}
	for _, r := range p.runnables {
		p.replaceQueue(r)
		p.ended.Go(func() {
			if err := r.Start(ctx); err != nil && ctx.Err() == nil {
				panic(fmt.Sprintf("%s: %v", name, err))
			}
		})
		synctest.Wait() // so that informers and their handlers are always made in the same order
	}
	return p
}

// config is how the process reaches an API server.
func (p *process) config(s *server, r rights) *rest.Config {
	return &rest.Config{
		Host: "https://" + s.name, QPS: -1, UserAgent: p.name, Transport: fenced{p.fence, transport{s, r}},
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	}
}

// newInformers makes a cache of the process for an API server.
func (p *process) newInformers(suffix string, s *server) *informers {
	c := newInformers(p.name+suffix, s, p.world.scheme)
	s.attach(c)
	p.caches = append(p.caches, c)
	p.world.addCache(c)
	return c
}

// drop ends a cache of the process.
func (p *process) drop(c *informers) {
	c.server.detach(c)
	p.caches = slices.DeleteFunc(p.caches, func(other *informers) bool { return other == c })
	p.world.remove(nil, []*informers{c})
}

// replaceQueue gives a controller a queue of the scheduler.
func (p *process) replaceQueue(r manager.Runnable) {
	v := reflect.ValueOf(r)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return
	}
	field := v.Elem().FieldByName("NewQueue")
	if !field.IsValid() {
		return
	}
	field.Set(reflect.ValueOf(func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		q := p.world.newQueue(p.name+"/"+name, limiter)
		p.queues = append(p.queues, q)
		return q
	}))
}

// stop ends the process. What it still does reaches nothing.
func (p *process) stop() {
	p.fence.dead.Store(true)
	p.cancel()
	for _, c := range p.caches {
		c.server.detach(c)
	}
	p.world.remove(p.queues, p.caches)
	for _, q := range p.queues {
		q.ShutDown()
	}
}

// Add implements manager.Manager. The runnables start when all are there.
func (p *process) Add(r manager.Runnable) error {
	p.runnables = append(p.runnables, r)
	return nil
}

// GetEventRecorderFor implements recorder.Provider.
func (p *process) GetEventRecorderFor(string) record.EventRecorder { return oldRecorder{p} }

// GetEventRecorder implements recorder.Provider.
func (p *process) GetEventRecorder(string) events.EventRecorder { return recorder{p} }

// GetWebhookServer implements manager.Manager.
func (p *process) GetWebhookServer() webhook.Server { return p.hooks }

// Event is what a manager reports about an object.
type Event struct {
	At                                time.Duration // since the world began
	By, Object, Type, Reason, Message string
}

// String describes the event.
func (e Event) String() string {
	return fmt.Sprintf("%s %s: %s %s %s: %s", e.At.Round(time.Second), e.By, e.Object, e.Type, e.Reason, e.Message)
}

func (p *process) event(obj runtime.Object, kind, reason, message string) {
	about := fmt.Sprintf("%T", obj)
	if o, ok := obj.(client.Object); ok {
		about += " " + client.ObjectKeyFromObject(o).String()
	}
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.world.events = append(p.world.events, Event{time.Since(p.world.start), p.name, about, kind, reason, message})
}

type recorder struct{ p *process }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(obj, _ runtime.Object, kind, reason, _, format string, args ...any) {
	r.p.event(obj, kind, reason, fmt.Sprintf(format, args...))
}

type oldRecorder struct{ p *process }

// Event implements record.EventRecorder.
func (r oldRecorder) Event(obj runtime.Object, kind, reason, message string) {
	r.p.event(obj, kind, reason, message)
}

// Eventf implements record.EventRecorder.
func (r oldRecorder) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	r.p.event(obj, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r oldRecorder) AnnotatedEventf(obj runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.p.event(obj, kind, reason, fmt.Sprintf(format, args...))
}
