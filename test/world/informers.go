// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// informers are a manager's cache, in place of controller-runtime's. The scheduler decides when each informer sees each change, so a
// manager may read what was true some time ago. There are no resyncs: a life settles by watches and requeues alone, and a watch that is
// missing shows.
type informers struct {
	name      string
	server    *server
	scheme    *runtime.Scheme
	transform toolscache.TransformFunc
	rights    rights // nil: all
	// delay returns how long a change stays unseen. A change that is lost is not seen at all if another one of the object follows in this time.
	delay func() (late time.Duration, lost bool)

	mu      sync.Mutex
	all     map[informerKey]*informer
	indexes map[schema.GroupVersionKind]map[string]client.IndexerFunc
}

var _ cache.Cache = &informers{}

func newInformers(name string, s *server, scheme *runtime.Scheme) *informers {
	return &informers{
		name: name, server: s, scheme: scheme, delay: func() (time.Duration, bool) { return 0, false },
		all: map[informerKey]*informer{}, indexes: map[schema.GroupVersionKind]map[string]client.IndexerFunc{},
	}
}

// shape is the form in which an informer keeps objects. As in controller-runtime, each has an informer of its own.
type shape string

const (
	typed    shape = "typed"
	untyped  shape = "unstructured"
	metadata shape = "metadata"
)

var shapes = []shape{typed, untyped, metadata}

type informerKey struct {
	schema.GroupVersionKind
	shape
}

// String describes the informer in the log.
func (k informerKey) String() string { return k.Kind + "/" + string(k.shape) }

// informer has seen the changes of one kind up to a revision.
type informer struct {
	toolscache.SharedIndexInformer // of which only the methods below are used
	of                             *informers
	key                            informerKey
	objects                        map[client.ObjectKey]client.Object
	revision                       uint64
	unseen                         []unseen
	lost                           []unseen
	handlers                       []toolscache.ResourceEventHandler
}

// unseen is a change that the informer does not know yet.
type unseen struct {
	change
	due time.Time
}

// enqueue is called with each change of the API server, under its lock.
func (c *informers) enqueue(one change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, shape := range shapes {
		i := c.all[informerKey{outside(one.object()), shape}]
		if i == nil {
			continue
		}
		i.enqueue(one)
	}
}

func (i *informer) enqueue(one change) {
	i.lost = slices.DeleteFunc(i.lost, func(u unseen) bool { return u.key == one.key })
	late, lost := i.of.delay()
	due := time.Now().Add(late)
	if lost {
		i.lost = append(i.lost, unseen{one, due})
		return
	}
	if n := len(i.unseen); n > 0 && i.unseen[n-1].due.After(due) { // a watch keeps the order
		due = i.unseen[n-1].due
	}
	i.unseen = append(i.unseen, unseen{one, due})
}

// due returns the informers that can see a change now, in a fixed order, and when the next one can.
func (c *informers) due(now time.Time) (all []*informer, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.all {
		i.find(now)
		for _, u := range i.lost {
			if next.IsZero() || u.due.Before(next) {
				next = u.due
			}
		}
		if len(i.unseen) == 0 {
			continue
		}
		if at := i.unseen[0].due; !at.After(now) {
			all = append(all, i)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	slices.SortFunc(all, func(a, b *informer) int {
		return cmp.Or(strings.Compare(a.key.String(), b.key.String()), strings.Compare(a.key.Group, b.key.Group))
	})
	return all, next
}

// find ends the loss of changes whose time has come, as a new list does.
func (i *informer) find(now time.Time) {
	i.lost = slices.DeleteFunc(i.lost, func(u unseen) bool {
		found := !u.due.After(now)
		if found {
			i.unseen = append(i.unseen, u)
		}
		return found
	})
}

// see shows the informer its next change.
func (i *informer) see(s *scheduler) {
	c := i.of
	c.mu.Lock()
	one := i.unseen[0]
	i.unseen = i.unseen[1:]
	seen, err := c.convert(one.object(), i.key)
	if err != nil {
		panic(err)
	}
	key := client.ObjectKeyFromObject(seen)
	before := i.objects[key]
	i.revision = one.revision
	if one.new == nil {
		delete(i.objects, key)
	} else {
		i.objects[key] = seen
	}
	handlers := slices.Clone(i.handlers)
	c.mu.Unlock()
	s.note("%s sees %s %s %d", c.name, i.key, key, one.revision)
	for _, h := range handlers {
		switch {
		case one.new == nil:
			h.OnDelete(seen)
		case before == nil:
			h.OnAdd(seen, false)
		default:
			h.OnUpdate(before, seen)
		}
	}
}

// convert returns the stored object in the informer's form, trimmed as the manager wants it.
func (c *informers) convert(u *unstructured.Unstructured, key informerKey) (client.Object, error) {
	obj, err := c.form(u, key)
	if err != nil || c.transform == nil {
		return obj, err
	}
	changed, err := c.transform(obj)
	if err != nil {
		return nil, err
	}
	return changed.(client.Object), nil
}

func (c *informers) form(u *unstructured.Unstructured, key informerKey) (client.Object, error) {
	switch key.shape {
	case untyped:
		obj := u.DeepCopy()
		obj.SetGroupVersionKind(key.GroupVersionKind)
		return obj, nil
	case metadata:
		obj := &metav1.PartialObjectMetadata{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": u.DeepCopy().Object["metadata"]}, obj)
		obj.SetGroupVersionKind(key.GroupVersionKind)
		return obj, err
	default:
		obj, err := c.scheme.New(key.GroupVersionKind)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		obj.GetObjectKind().SetGroupVersionKind(key.GroupVersionKind)
		return obj.(client.Object), nil
	}
}

func (c *informers) keyOf(obj runtime.Object) (informerKey, error) {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	switch obj.(type) {
	case runtime.Unstructured:
		return informerKey{gvk, untyped}, err
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return informerKey{gvk, metadata}, err
	}
	return informerKey{gvk, typed}, err
}

// informer returns the informer of the object's kind. A new one knows everything that there is now.
func (c *informers) informer(obj runtime.Object) (*informer, error) {
	key, err := c.keyOf(obj)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	known := c.all[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	mapping, err := c.server.mapper.RESTMapping(key.GroupKind(), key.Version)
	if err != nil {
		return nil, err
	}
	resource := mapping.Resource.GroupResource()
	for _, verb := range []string{"list", "watch"} {
		if info := (&apirequest.RequestInfo{Verb: verb, APIGroup: resource.Group, Resource: resource.Resource}); c.rights != nil && !c.rights.allow(info) {
			return nil, apierrors.NewForbidden(resource, "", errNoRule(info))
		}
	}
	resource.Group = inside(resource.Group)
	s := c.server.store
	s.mu.Lock() // no change comes between
	defer s.mu.Unlock()
	i := &informer{of: c, key: key, objects: map[client.ObjectKey]client.Object{}, revision: max(s.revision, 1)}
	for name, u := range s.objects {
		if !strings.HasPrefix(name, prefix(resource)+"/") {
			continue
		}
		seen, err := c.convert(u, key)
		if err != nil {
			return nil, err
		}
		i.objects[client.ObjectKeyFromObject(seen)] = seen
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[key] == nil {
		c.all[key] = i
	}
	return c.all[key], nil
}

func sortedKeys(objects map[client.ObjectKey]client.Object) []client.ObjectKey {
	return slices.SortedFunc(maps.Keys(objects), func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
}

// Get implements client.Reader.
func (c *informers) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	i, err := c.informer(out)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	obj := i.objects[key]
	if obj == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: i.key.Group, Resource: i.key.Kind}, key.Name)
	}
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(obj.DeepCopyObject()).Elem())
	return nil
}

// List implements client.Reader.
func (c *informers) List(_ context.Context, out client.ObjectList, opts ...client.ListOption) error {
	i, err := c.informer(out)
	if err != nil {
		return err
	}
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	c.mu.Lock()
	defer c.mu.Unlock()
	var items []runtime.Object
	for _, key := range sortedKeys(i.objects) {
		obj := i.objects[key]
		if o.Namespace != "" && key.Namespace != o.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		matches, err := c.matches(i.key, obj, o)
		if err != nil {
			return err
		}
		if matches {
			items = append(items, obj.DeepCopyObject())
		}
	}
	return meta.SetList(out, items)
}

// matches asks the index of each selected field. As in controller-runtime, a field without an index cannot be selected.
func (c *informers) matches(key informerKey, obj client.Object, o client.ListOptions) (bool, error) {
	if o.FieldSelector == nil {
		return true, nil
	}
	for _, r := range o.FieldSelector.Requirements() {
		index := c.indexes[key.GroupVersionKind][r.Field]
		if index == nil {
			return false, fmt.Errorf("%s: no index of %s in %s", c.name, r.Field, key)
		}
		if !slices.Contains(index(obj), r.Value) {
			return false, nil
		}
	}
	return true, nil
}

// IndexField implements client.FieldIndexer.
func (c *informers) IndexField(_ context.Context, obj client.Object, field string, index client.IndexerFunc) error {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.indexes[gvk] == nil {
		c.indexes[gvk] = map[string]client.IndexerFunc{}
	}
	c.indexes[gvk][field] = index
	return nil
}
