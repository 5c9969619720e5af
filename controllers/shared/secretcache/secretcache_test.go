// SPDX-License-Identifier: Apache-2.0

package secretcache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var key = client.ObjectKey{Namespace: "default", Name: "id"}

// bench is a management cluster that counts the reads of Secrets, and a cache of their metadata.
type bench struct {
	*testing.T
	*Cache

	store client.Client
	reads int
}

// newBench returns a bench with a Secret, which the cache of metadata shows.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t}
	b.store = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			b.reads++
			return c.Get(ctx, key, obj, opts...)
		},
	}).Build()
	b.Cache = New(nil, b.store)
	b.create("first", "old")
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) create(uid types.UID, password string) {
	b.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid}, Data: map[string][]byte{"password": []byte(password)}}
	b.must(b.store.Create(b.Context(), s))
	b.show(s)
}

func (b *bench) rotate(password string) *corev1.Secret {
	b.Helper()
	s := &corev1.Secret{}
	b.must(b.store.Get(b.Context(), key, s))
	s.Data["password"] = []byte(password)
	b.must(b.store.Update(b.Context(), s))
	b.reads = 0
	return s
}

// show is the watch event that brings the metadata up to date.
func (b *bench) show(s *corev1.Secret) {
	b.Helper()
	b.metadata = fake.NewClientBuilder().WithObjects(&corev1.Secret{ObjectMeta: s.ObjectMeta}).Build()
}

// passes reads the Secret several times, and expects a content and a number of reads.
func (b *bench) passes(moment, password string, reads int) {
	b.Helper()
	b.reads = 0
	for range 5 {
		s, err := b.Get(b.Context(), key)
		b.must(err)
		if got := string(s.Data["password"]); got != password {
			b.Errorf("%s: password %q, want %q", moment, got, password)
		}
	}
	if b.reads != reads {
		b.Errorf("%s: 5 passes read the Secret %d times, want %d", moment, b.reads, reads)
	}
}

// TestOneReadServesManyPasses checks that a Secret is read again once it has changed, and not before. One that is newer than its metadata, also
// because the caller has written it, is read again and again until the metadata shows it.
func TestOneReadServesManyPasses(t *testing.T) {
	b := newBench(t)
	changed := b.rotate("changed")
	b.passes("before the first event", "changed", 5)
	b.show(changed)
	b.passes("after the event", "changed", 0)
	changed = b.rotate("new")
	b.passes("before the event", "changed", 0)
	b.show(changed)
	b.passes("after the next event", "new", 1)
	written := b.rotate("written")
	b.Put(written.DeepCopy())
	b.passes("written by the caller", "written", 5)
	b.show(written)
	b.passes("when that is shown", "written", 0)
	b.must(b.store.Delete(t.Context(), written))
	b.create("second", "other")
	b.passes("created again", "other", 1)
	b.Forget(key)
	b.passes("forgotten", "other", 1)
	b.metadata = fake.NewClientBuilder().Build()
	b.passes("not shown yet", "other", 5)
}

// TestGone checks that a Secret that was deleted is not found, and that nothing of it is kept. Only metadata can show that it is absent.
func TestGone(t *testing.T) {
	b := newBench(t)
	b.passes("at first", "old", 1)
	if New(nil, b.store).Absent(t.Context(), key) || b.Absent(t.Context(), key) {
		t.Error("absent without metadata, or although it is shown")
	}
	b.must(b.store.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	b.metadata = fake.NewClientBuilder().Build()
	if s, err := b.Get(t.Context(), key); !apierrors.IsNotFound(err) || b.known.Len() > 0 || !b.Absent(t.Context(), key) {
		t.Errorf("%v, %v, %d are kept", s, err, b.known.Len())
	}
}

// TestWithoutMetadata checks that every read is live if there is no cache of metadata, and that nothing is kept.
func TestWithoutMetadata(t *testing.T) {
	b := newBench(t)
	b.metadata = nil
	for range 3 {
		_, err := b.Get(t.Context(), key)
		b.must(err)
	}
	if b.reads != 3 || b.known.Len() > 0 {
		t.Errorf("%d reads, %d Secrets are kept", b.reads, b.known.Len())
	}
}

// TestKept checks that a Secret is dropped after some time, also if callers ask for it.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.passes("at first", "old", 1)
		time.Sleep(kept - time.Second)
		b.passes("later", "old", 0)
		time.Sleep(time.Second)
		b.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}})
		if n := b.known.Len(); n != 1 {
			t.Errorf("%d Secrets are kept", n)
		}
		b.passes("in the end", "old", 1)
	})
}
