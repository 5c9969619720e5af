// SPDX-License-Identifier: Apache-2.0

package persist

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

// most is how long a call and the storing of its result may take.
const most = 80 * time.Second

// bench is a store with one object, and a copy of the object as a cache would hold it.
type bench struct {
	*testing.T
	store  client.WithWatch
	writer Writer
	cached *infrav1.PortalControlPlane
	wrote  []string // resource versions
	writes int      // tried
	before func() error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := schemes.Of(t, infrav1.AddToScheme)
	b := &bench{T: t, before: func() error { return nil }}
	obj := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	b.store = fake.NewClientBuilder().WithScheme(scheme).WithObjects(obj).Build()
	b.cached = b.stored()
	c := interceptor.NewClient(b.store, interceptor.Funcs{Patch: b.patch, Get: b.get})
	b.writer = Writer{Client: c, Live: c, Wrote: func(obj client.Object) { b.wrote = append(b.wrote, obj.GetResourceVersion()) }}
	return b
}

func (b *bench) patch(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	b.writes++
	if err := b.before(); err != nil {
		return err
	}
	return c.Patch(ctx, obj, patch, opts...)
}

func (b *bench) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := b.before(); err != nil {
		return err
	}
	return c.Get(ctx, key, obj, opts...)
}

// away makes the API server refuse everything for the duration.
func (b *bench) away(outage time.Duration) {
	back := time.Now().Add(outage)
	b.before = func() error {
		if time.Now().Before(back) {
			return errors.New("connection refused")
		}
		return nil
	}
}

func (b *bench) stored() *infrav1.PortalControlPlane {
	b.Helper()
	obj := &infrav1.PortalControlPlane{}
	if err := b.store.Get(b.Context(), key, obj); err != nil {
		b.Fatal(err)
	}
	return obj
}

// somebodyElse writes the object, so that the cached copy is stale.
func (b *bench) somebodyElse() {
	b.Helper()
	obj := b.stored()
	metav1.SetMetaDataAnnotation(&obj.ObjectMeta, "note", "of somebody else")
	if err := b.store.Update(b.Context(), obj); err != nil {
		b.Fatal(err)
	}
}

// note is a change of the cached object.
func (b *bench) note() { metav1.SetMetaDataAnnotation(&b.cached.ObjectMeta, "result", "job-1") }

// TestPersistAfterAConflict: a result is stored on the present object, and other writers' changes are kept.
func TestPersistAfterAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.somebodyElse()
		if err := b.writer.Persist(t.Context(), b.cached, b.note); err != nil {
			t.Fatal(err)
		}
		if got := b.stored().Annotations; got["result"] != "job-1" || got["note"] == "" {
			t.Errorf("stored %v", got)
		}
		if b.cached.ResourceVersion != b.stored().ResourceVersion || b.cached.Annotations["note"] == "" {
			t.Error("the caller's copy is not what is stored")
		}
	})
}

// TestPersistEndsWithTheObject: if the object is gone, its result need not be stored.
func TestPersistEndsWithTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		if err := b.store.Delete(t.Context(), b.stored()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err := b.writer.Persist(t.Context(), b.cached, b.note)
		if !apierrors.IsNotFound(err) || time.Since(start) > time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// TestDetach: a reconcile that ends does not cut its call to the portal off.
func TestDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reconcile, end := context.WithCancel(t.Context())
		ctx, cancel := Detach(reconcile, most)
		defer cancel()
		end()
		if err := ctx.Err(); err != nil {
			t.Error(err)
		}
		time.Sleep(most / 2)
		storing, done := Detach(ctx, most) // the result of the call
		defer done()
		time.Sleep(most/2 + time.Second)
		if !errors.Is(storing.Err(), context.DeadlineExceeded) {
			t.Errorf("the storing takes longer than the manager's grace period: %v", storing.Err())
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("it never ends: %v", ctx.Err())
		}
	})
}

// TestChangeNothing checks that a change that makes no difference is not written, and that the next pass still waits for a cache with the
// object as it is.
func TestChangeNothing(t *testing.T) {
	b := newBench(t)
	if err := b.writer.Change(t.Context(), b.cached, func() { delete(b.cached.Annotations, "none") }); err != nil {
		t.Fatal(err)
	}
	if b.writes != 0 || len(b.wrote) != 1 || b.wrote[0] != b.stored().ResourceVersion {
		t.Errorf("%d writes, told of %v", b.writes, b.wrote)
	}
}

// TestPersistEndsWithTheTime: the time of a detached context bounds a result that cannot be stored.
func TestPersistEndsWithTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.away(time.Hour)
		start := time.Now()
		ctx, cancel := Detach(t.Context(), most)
		defer cancel()
		err := b.writer.Persist(ctx, b.cached, b.note)
		if took := time.Since(start); err == nil || took < most-time.Second || took > most+time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestPersistOutlivesAnOutage: the result is stored even if the API server is away for a moment or for a minute.
func TestPersistOutlivesAnOutage(t *testing.T) {
	for _, outage := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 3 * time.Second, time.Minute} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.away(outage)
				ctx, cancel := Detach(t.Context(), most)
				defer cancel()
				start := time.Now()
				if err := b.writer.Persist(ctx, b.cached, b.note); err != nil {
					t.Fatal(err)
				}
				if got := b.stored().Annotations; got["result"] != "job-1" {
					t.Errorf("stored %v", got)
				}
				if late := time.Since(start) - outage; late > 7*time.Second {
					t.Errorf("stored %s after the API server was back", late)
				}
			})
		})
	}
}

// TestAFailedWriteLeavesNothingBehind: a change that was not stored is not kept in memory either.
func TestAFailedWriteLeavesNothingBehind(t *testing.T) {
	b := newBench(t)
	b.away(time.Hour)
	if err := b.writer.Change(t.Context(), b.cached, b.note); err == nil {
		t.Fatal("no error")
	}
	if len(b.cached.Annotations) != 0 {
		t.Errorf("the copy in memory holds %v", b.cached.Annotations)
	}
}
