// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

var key = client.ObjectKey{Namespace: "default", Name: "a"}

// writerBench is a store with one object, and a copy of the object as a cache would hold it.
type writerBench struct {
	*testing.T
	store  client.WithWatch
	writer Writer
	cached *infrav1.PortalControlPlane
	wrote  []string // resource versions
	writes int      // tried
	before func() error
}

func newWriterBench(t *testing.T) *writerBench {
	t.Helper()
	scheme := schemes.Of(t, infrav1.AddToScheme)
	b := &writerBench{T: t, before: func() error { return nil }}
	obj := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	b.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(obj).Build()
	b.cached = b.stored()
	c := interceptor.NewClient(b.store, interceptor.Funcs{Patch: b.patch, Get: b.get})
	b.writer = Writer{Client: c, Live: c, Calls: &Calls{}, Wrote: func(obj client.Object) { b.wrote = append(b.wrote, obj.GetResourceVersion()) }}
	return b
}

func (b *writerBench) patch(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	b.writes++
	if err := b.before(); err != nil {
		return err
	}
	return c.Patch(ctx, obj, patch, opts...)
}

func (b *writerBench) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := b.before(); err != nil {
		return err
	}
	return c.Get(ctx, key, obj, opts...)
}

// intend stores an intent, as Start does before a request.
func (b *writerBench) intend(op *Operation) error {
	return b.writer.Change(b.Context(), b.cached, func() { putLast(b.cached, op) })
}

// away makes the API server refuse everything for the duration.
func (b *writerBench) away(outage time.Duration) {
	back := time.Now().Add(outage)
	b.before = func() error {
		if time.Now().Before(back) {
			return errors.New("connection refused")
		}
		return nil
	}
}

func (b *writerBench) stored() *infrav1.PortalControlPlane {
	b.Helper()
	obj := &infrav1.PortalControlPlane{}
	if err := b.store.Get(b.Context(), key, obj); err != nil {
		b.Fatal(err)
	}
	return obj
}

// somebodyElse writes the object, so that the cached copy is stale.
func (b *writerBench) somebodyElse() {
	b.Helper()
	obj := b.stored()
	metav1.SetMetaDataAnnotation(&obj.ObjectMeta, "note", "of somebody else")
	if err := b.store.Update(b.Context(), obj); err != nil {
		b.Fatal(err)
	}
}

func (b *writerBench) operation() *Operation {
	b.Helper()
	op, err := lastOf(b.stored())
	if err != nil {
		b.Fatal(err)
	}
	return op
}

// TestPersistAfterAConflict: a result is stored on the present object, and other writers' changes are kept.
func TestPersistAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWriterBench(t)
		op := New(Scale, "5")
		if err := b.intend(op); err != nil {
			t.Fatal(err)
		}
		b.somebodyElse()
		op.JobID = "job-1"
		if err := b.writer.Persist(t.Context(), b.cached, func() { putLast(b.cached, op) }); err != nil {
			t.Fatal(err)
		}
		if got := b.operation(); got == nil || got.JobID != "job-1" || b.stored().Annotations["note"] == "" {
			t.Errorf("stored %v", b.stored().Annotations)
		}
		if b.cached.ResourceVersion != b.stored().ResourceVersion || b.cached.Annotations["note"] == "" {
			t.Error("the caller's copy is not what is stored")
		}
	})
}

// TestPersistEndsWithTheObject: if the object is gone, its result need not be stored.
func TestPersistEndsWithTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newWriterBench(t)
		if err := b.store.Delete(t.Context(), b.stored()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err := b.writer.Persist(t.Context(), b.cached, func() { putLast(b.cached, New(Scale, "5")) })
		if !apierrors.IsNotFound(err) || time.Since(start) > time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// TestDetach: a reconcile that ends does not cut its call to the portal off.
func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reconcile, end := context.WithCancel(t.Context())
		ctx, cancel := Detach(reconcile, callTimeout)
		defer cancel()
		end()
		if err := ctx.Err(); err != nil {
			t.Error(err)
		}
		time.Sleep(callTimeout / 2)
		storing, done := Detach(ctx, callTimeout) // the result of the call
		defer done()
		time.Sleep(callTimeout/2 + time.Second)
		if !errors.Is(storing.Err(), context.DeadlineExceeded) {
			t.Errorf("the storing takes longer than the manager's grace period: %v", storing.Err())
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("it never ends: %v", ctx.Err())
		}
	})
}

// TestLetMove: an intent is stored, and blocks a move. A paused object may be moved, operation and all.
func TestLetMove(t *testing.T) {
	b := newWriterBench(t)
	op := New(Create, "a")
	if err := b.intend(op); err != nil {
		t.Fatal(err)
	}
	if !blocksMove(b.stored()) || len(b.wrote) != 1 || b.wrote[0] != b.stored().ResourceVersion {
		t.Fatalf("an intent does not block a move, or the caller is told of writes %v", b.wrote)
	}
	if err := b.writer.UnblockMove(t.Context(), b.cached); err != nil {
		t.Fatal(err)
	}
	if got := b.operation(); blocksMove(b.stored()) || got == nil || got.ID != op.ID {
		t.Errorf("stored %v", b.stored().Annotations)
	}
	writes := b.writes
	if err := b.writer.UnblockMove(t.Context(), b.cached); err != nil || b.writes != writes {
		t.Errorf("%v; an object that may move already was written", err)
	}
}

// TestChangeNothing checks that a change that makes no difference is not written, and that the next pass still waits for a cache with the
// object as it is.
func TestChangeNothing(t *testing.T) {
	b := newWriterBench(t)
	if err := b.writer.Change(t.Context(), b.cached, func() { delete(b.cached.Annotations, "none") }); err != nil {
		t.Fatal(err)
	}
	if b.writes != 0 || len(b.wrote) != 1 || b.wrote[0] != b.stored().ResourceVersion {
		t.Errorf("%d writes, told of %v", b.writes, b.wrote)
	}
}
