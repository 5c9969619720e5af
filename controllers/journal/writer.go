// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CallTimeout bounds a call that changes something at the portal together with the storing of its outcome. The
// manager's grace period is longer, so SIGTERM lets both end.
const CallTimeout = 80 * time.Second

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

// Change applies one change to the object's metadata or spec with an optimistic lock.
func (w Writer) Change(ctx context.Context, obj client.Object, change func()) error {
	before, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not a client.Object", obj)
	}
	change()
	if err := w.Client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	if w.Wrote != nil {
		w.Wrote(obj)
	}
	return nil
}

// Settle stores what became of a call: the change is made on the object as it is, again after every failure, until it
// is stored, the object is gone or the context ends. Nothing else is as important at that moment.
func (w Writer) Settle(ctx context.Context, obj client.Object, change func()) error {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 1 << 30, Cap: 5 * time.Second}
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		last = w.Change(ctx, obj, change)
		if last == nil {
			return true, nil
		}
		if apierrors.IsNotFound(last) {
			return false, last
		}
		if err := w.Live.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil && apierrors.IsNotFound(err) {
			return false, err
		}
		return false, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("store the outcome of an operation: %w", last)
	}
	return err
}
