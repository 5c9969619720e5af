// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"context"
	"slices"
	"sync"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is what a watch saw of objects of one kind, in the order in which the API server stored it.
type history[T client.Object] struct {
	mu     sync.Mutex
	events []event[T]
}

type event[T client.Object] struct {
	kind   watch.EventType
	object T
}

// observe watches from now on, what exists comes first. It ends with the test.
func observe[T client.Object](w *world, c client.WithWatch, list client.ObjectList, options ...client.ListOption) *history[T] {
	w.Helper()
	watcher, err := c.Watch(context.WithoutCancel(w.Context()), list, options...)
	w.Expect(err).NotTo(HaveOccurred())
	h := &history[T]{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case e := <-watcher.ResultChan():
				object, ok := e.Object.(T)
				if !ok {
					w.Errorf("the watch of %T ended before the test: %s %v", list, e.Type, e.Object)
					return
				}
				h.add(event[T]{e.Type, object})
			}
		}
	}()
	w.Cleanup(func() { close(stop); <-stopped; watcher.Stop() })
	return h
}

func (h *history[T]) add(e event[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// all events so far.
func (h *history[T]) all() []event[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// of are the events so far of the object with that name.
func (h *history[T]) of(name string) []event[T] {
	return slices.DeleteFunc(h.all(), func(e event[T]) bool { return e.object.GetName() != name })
}

// deleting are the names of the objects that carry the label and were marked for deletion, in that order.
func (h *history[T]) deleting(label, value string) func() []string {
	return func() []string {
		names := []string{}
		for _, e := range h.all() {
			name := e.object.GetName()
			if e.object.GetLabels()[label] == value && e.object.GetDeletionTimestamp() != nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names
	}
}

// lives are the beginnings and ends of the objects that carry the label, as "ADDED" and "DELETED", in that order.
func (h *history[T]) lives(label, value string) []string {
	var lives []string
	for _, e := range h.all() {
		if e.object.GetLabels()[label] == value && (e.kind == watch.Added || e.kind == watch.Deleted) {
			lives = append(lives, string(e.kind))
		}
	}
	return lives
}

// deleted reports whether the object with that name is gone.
func (h *history[T]) deleted(name string) func() bool {
	return func() bool {
		return slices.ContainsFunc(h.of(name), func(e event[T]) bool { return e.kind == watch.Deleted })
	}
}
