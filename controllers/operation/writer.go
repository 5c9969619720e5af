// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// callTimeout bounds a call that changes something at the portal, together with the storing of its intent and its result. The
// manager's grace period is longer, so SIGTERM lets both end. For a creation, creationTimeout takes its place (Calls.Drain).
const (
	callTimeout     = 80 * time.Second
	creationTimeout = cloud.CreationTime + 20*time.Second
)

// callTime returns how long a call for an operation of the type may take, together with the storing of its intent and its result.
func callTime(t Type) time.Duration {
	if t.class() == ratelimit.Creation {
		return creationTimeout
	}
	return callTimeout
}

// The pauses between attempts to store a result.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Writer stores intents and results.
type Writer struct {
	Client client.Client
	// Live reads past the cache, after a conflict.
	Live client.Reader
	// Wrote is called after every write that succeeded, from any goroutine. Optional.
	Wrote func(client.Object)
	// Calls are the creations under way. All writers of a process share them.
	Calls *Calls
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
			replace(obj, before)
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
	replace(obj, fresh)
	return nil
}

// UnblockMove removes clusterctl's block-move annotation from a paused object, so that its operation may move along. While this process
// waits for the answer to a creation, the annotation stays. It goes when the answer is stored.
func (w Writer) UnblockMove(ctx context.Context, obj client.Object) error {
	if _, blocked := obj.GetAnnotations()[clusterctlv1.BlockMoveAnnotation]; !blocked {
		return nil
	}
	if state, err := Load(obj); err == nil && w.Calls.awaits(state.Last) {
		return nil
	}
	return w.Change(ctx, obj, func() { delete(obj.GetAnnotations(), clusterctlv1.BlockMoveAnnotation) })
}

// replace overwrites obj with other.
func replace(obj, other client.Object) {
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(other).Elem())
}
