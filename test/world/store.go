// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// store is what one API server keeps, in place of etcd.
type store struct {
	mu       sync.Mutex
	objects  map[string]*unstructured.Unstructured // by key. They are never changed
	revision uint64
	// changed is called with each write, in order, under the lock.
	changed func(change)
}

// change is one write.
type change struct {
	key      string
	old, new *unstructured.Unstructured // nil: there was, or is, none
	revision uint64
}

// object is what the write stored, or what it deleted.
func (c change) object() *unstructured.Unstructured {
	if c.new != nil {
		return c.new
	}
	return c.old
}

type storeKey struct{}

func storeOf(ctx context.Context) *store { return ctx.Value(storeKey{}).(*store) }

func (s *store) get(key string) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

// swap stores an object, or deletes it if that is nil, if the old one is still there. It reports whether it was.
func (s *store) swap(key string, old, obj *unstructured.Unstructured) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[key] != old {
		return false
	}
	s.revision++
	c := change{key: key, old: old, new: obj, revision: s.revision}
	if obj == nil {
		delete(s.objects, key)
		c.old = old.DeepCopy()
		_ = versioner.UpdateObject(c.old, s.revision)
	} else {
		_ = versioner.UpdateObject(obj, s.revision)
		s.objects[key] = obj
	}
	if s.changed != nil {
		s.changed(c)
	}
	return true
}

// list returns the objects whose keys begin with the prefix, in the order of their keys. They must not be changed.
func (s *store) list(prefix string) (all []*unstructured.Unstructured, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		all = append(all, s.objects[key])
	}
	return all, s.revision
}

// all returns everything. The objects must not be changed.
func (s *store) all() map[string]*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

func (s *store) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// prefix of the keys of a resource.
func prefix(resource schema.GroupResource) string {
	return "/" + resource.Group + ":" + resource.Resource
}

var versioner = storage.APIObjectVersioner{}

// memory is the storage of one resource, in the store of the context.
type memory struct{ storage.Interface }

// Versioner implements storage.Interface.
func (memory) Versioner() storage.Versioner { return versioner }

// Create implements storage.Interface.
func (memory) Create(ctx context.Context, key string, obj, out runtime.Object, _ uint64) error {
	stored := obj.(*unstructured.Unstructured).DeepCopy()
	if err := versioner.PrepareObjectForStorage(stored); err != nil {
		return err
	}
	if !storeOf(ctx).swap(key, nil, stored) {
		return storage.NewKeyExistsError(key, 0)
	}
	give(stored, out)
	return nil
}

func give(obj *unstructured.Unstructured, out runtime.Object) {
	if out != nil {
		out.(*unstructured.Unstructured).Object = obj.DeepCopy().Object
	}
}

// Delete implements storage.Interface.
func (memory) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc,
	_ runtime.Object, _ storage.DeleteOptions,
) error {
	for {
		old := storeOf(ctx).get(key)
		if old == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		if preconditions != nil {
			if err := preconditions.Check(key, old); err != nil {
				return err
			}
		}
		if err := validate(ctx, old.DeepCopy()); err != nil {
			return err
		}
		if storeOf(ctx).swap(key, old, nil) {
			give(old, out)
			return nil
		}
	}
}

// Get implements storage.Interface.
func (memory) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	obj := storeOf(ctx).get(key)
	if obj == nil {
		if opts.IgnoreNotFound {
			return runtime.SetZeroValue(out)
		}
		return storage.NewKeyNotFoundError(key, 0)
	}
	give(obj, out)
	return nil
}

// GetList implements storage.Interface.
func (memory) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if opts.Recursive && !strings.HasSuffix(key, "/") {
		key += "/"
	}
	all, revision := storeOf(ctx).list(key)
	out := list.(*unstructured.UnstructuredList)
	out.Items = []unstructured.Unstructured{}
	for _, obj := range all {
		if matches, err := opts.Predicate.Matches(obj); err != nil {
			return err
		} else if matches {
			out.Items = append(out.Items, *obj.DeepCopy())
		}
	}
	return versioner.UpdateList(out, max(revision, 1), "", nil)
}

// GuaranteedUpdate implements storage.Interface.
func (memory) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, _ runtime.Object,
) error {
	for {
		old := storeOf(ctx).get(key)
		if old == nil && !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		obj, err := updated(key, old, preconditions, update)
		if err != nil {
			return err
		}
		if old != nil && same(old, obj) {
			give(old, destination)
			return nil
		}
		if storeOf(ctx).swap(key, old, obj) {
			give(obj, destination)
			return nil
		}
	}
}

// updated is the object after the update.
func updated(key string, old *unstructured.Unstructured, preconditions *storage.Preconditions, update storage.UpdateFunc) (*unstructured.Unstructured, error) {
	current, response := &unstructured.Unstructured{}, storage.ResponseMeta{}
	if old != nil {
		current = old.DeepCopy()
		response.ResourceVersion, _ = versioner.ObjectResourceVersion(old)
	}
	if err := preconditions.Check(key, current); err != nil {
		return nil, err
	}
	changed, _, err := update(current, response)
	if err != nil {
		return nil, err
	}
	obj := changed.(*unstructured.Unstructured).DeepCopy()
	return obj, versioner.PrepareObjectForStorage(obj)
}

// same reports whether an update changes nothing. The new object has no resource version.
func same(old, obj *unstructured.Unstructured) bool {
	if len(old.Object) != len(obj.Object) {
		return false
	}
	for key, value := range obj.Object {
		if key != "metadata" && !reflect.DeepEqual(old.Object[key], value) {
			return false
		}
	}
	before, _ := old.Object["metadata"].(map[string]any)
	after, _ := obj.Object["metadata"].(map[string]any)
	if len(before) != len(after)+1 { // resourceVersion
		return false
	}
	for key, value := range after {
		if !reflect.DeepEqual(before[key], value) {
			return false
		}
	}
	return true
}

// Watch implements storage.Interface.
func (memory) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, errors.New("the scheduler shows changes to caches")
}

// GetCurrentResourceVersion implements storage.Interface.
func (memory) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return storeOf(ctx).now(), nil
}

func (memory) ReadinessCheck() error                               { return nil }
func (memory) RequestWatchProgress(context.Context) error          { return nil }
func (memory) Stats(context.Context) (storage.Stats, error)        { return storage.Stats{}, nil }
func (memory) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }
func (memory) CompactRevision() int64                              { return 0 }
