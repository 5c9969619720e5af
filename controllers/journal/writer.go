// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CallTimeout bounds a call that changes something at the portal together with the storing of its outcome. The
// manager's grace period is longer, so SIGTERM lets both end.
const CallTimeout = 80 * time.Second

// How often the storing of an outcome is tried again.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Writer stores intents and outcomes.
type Writer struct {
	Client client.Client
	// Live reads past the cache, after a conflict.
	Live client.Reader
	// Wrote is told of every write that succeeded; optional.
	Wrote func(client.Object)
}

// Detach returns a context for a call to the portal and its outcome: it outlives the reconcile that began it.
func Detach(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
}

// Intend stores op as the operation in flight, before its call. It fails, and nothing must be sent, if anybody else has
// written the object since it was read.
func (w Writer) Intend(ctx context.Context, obj client.Object, op *Operation) error {
	if err := w.Change(ctx, obj, func() { Put(obj, op) }); err != nil {
		return fmt.Errorf("store the intent to %s %q: %w", op.Type, op.Target, err)
	}
	return nil
}

// Change applies one change to the object's metadata or spec with an optimistic lock. If it fails the object is left as
// it was.
func (w Writer) Change(ctx context.Context, obj client.Object, change func()) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not a client.Object", obj)
	}
	change()
	err := w.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		replace(obj, before)
		return err
	}
	if w.Wrote != nil {
		w.Wrote(obj)
	}
	return nil
}

// Settle stores what became of a call: the change is made on the object as it is now, again after every failure, until
// it is stored, the object is gone or the context ends. Nothing else is as important at that moment. The change must not
// depend on how often it runs.
func (w Writer) Settle(ctx context.Context, obj client.Object, change func()) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := w.Change(ctx, obj, change)
		if err == nil || apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("store the outcome of an operation: %w", err)
		case <-time.After(pause + rand.N(pause/4)):
		}
		if err := w.refresh(ctx, obj); apierrors.IsNotFound(err) {
			return err
		}
	}
}

// refresh reads the object anew; it is left as it is if that fails.
func (w Writer) refresh(ctx context.Context, obj client.Object) error {
	fresh, ok := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not a client.Object", obj)
	}
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(obj), fresh); err != nil {
		return err
	}
	replace(obj, fresh)
	return nil
}

// replace makes obj what other is.
func replace(obj, other client.Object) {
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(other).Elem())
}
