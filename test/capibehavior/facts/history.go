// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history holds the events of a watch of one kind, in the order in which the API server stored the changes.
type history[T client.Object] struct {
	mu     sync.Mutex
	events []event[T]
}

type event[T client.Object] struct {
	kind   watch.EventType
	object T
}

// observe starts a watch that ends with the fact. Its history begins with the existing objects.
func observe[T client.Object](f *fixture, list client.ObjectList, options ...client.ListOption) *history[T] {
	f.Helper()
	h := &history[T]{}
	f.Follow(list, func(e watch.Event) {
		object, _ := e.Object.(T)
		h.add(event[T]{e.Type, object})
	}, options...)
	return h
}

func (h *history[T]) add(e event[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// all returns all events so far.
func (h *history[T]) all() []event[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.events)
}

// of returns the events so far of the object with that name.
func (h *history[T]) of(name string) []event[T] {
	return slices.DeleteFunc(h.all(), func(e event[T]) bool { return e.object.GetName() != name })
}

// deleting returns a function that returns the names of the objects with the label whose deletion has begun, in the order of
// their deletion.
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

// lives returns "ADDED" for each creation and "DELETED" for each deletion of an object with the label, in order.
func (h *history[T]) lives(label, value string) []string {
	var lives []string
	for _, e := range h.all() {
		if e.object.GetLabels()[label] == value && (e.kind == watch.Added || e.kind == watch.Deleted) {
			lives = append(lives, string(e.kind))
		}
	}
	return lives
}

// deleted returns a function that reports whether the object with that name is gone.
func (h *history[T]) deleted(name string) func() bool {
	return func() bool {
		return slices.ContainsFunc(h.of(name), func(e event[T]) bool { return e.kind == watch.Deleted })
	}
}
