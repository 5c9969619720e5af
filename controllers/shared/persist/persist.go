// SPDX-License-Identifier: Apache-2.0

// Package persist writes objects: a change with an optimistic lock, and the result of a call to the portal until it is stored.
package persist

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The pauses between attempts to store a result.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Writer writes objects.
type Writer struct {
	Client client.Client
	// Live reads past the cache, after a conflict.
	Live client.Reader
	// Wrote is called after every write that succeeded, from any goroutine. Optional.
	Wrote func(client.Object)
}

// detached is the key of contexts that Detach has made.
type detached struct{}

// Detach returns a context for a call to the portal and the storing of its intent and its result. It outlives the reconcile. A
// detached context is returned as it is, so the call and the storing share its time.
func Detach(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Value(detached{}) != nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), detached{}, true), most)
}

// Change applies one change to the object's metadata or spec with an optimistic lock. A change that makes no difference is not
// written. If the write fails, the object is left as it was.
func (w Writer) Change(ctx context.Context, obj client.Object, change func()) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not a client.Object", obj)
	}
	change()
	if !equality.Semantic.DeepEqual(before, obj) {
		if err := w.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			Replace(obj, before)
			return err
		}
	}
	if w.Wrote != nil {
		w.Wrote(obj)
	}
	return nil
}

// Persist stores the result of a portal call. It applies the change to the object as it is now, and repeats that after every
// failure until the result is stored, the object is gone or ctx is done. ctx must be detached from the reconcile, and change must
// be idempotent.
func (w Writer) Persist(ctx context.Context, obj client.Object, change func()) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := w.Change(ctx, obj, change)
		if err == nil || apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("store the result of an operation: %w", err)
		case <-time.After(wait.Jitter(pause, 0.25)):
		}
		if err := w.refresh(ctx, obj); apierrors.IsNotFound(err) {
			return err
		}
	}
}

// refresh reads the object again. If that fails, the object is left as it is.
func (w Writer) refresh(ctx context.Context, obj client.Object) error {
	fresh, ok := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not a client.Object", obj)
	}
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(obj), fresh); err != nil {
		return err
	}
	Replace(obj, fresh)
	return nil
}

// Replace overwrites an object with another one of its type.
func Replace(obj, other client.Object) {
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(other).Elem())
}
