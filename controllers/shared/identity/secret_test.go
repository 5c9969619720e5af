// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
)

// counting has the Resolver count the reads of Secrets.
func (b *bench) counting() (reads *int) {
	b.Helper()
	store, ok := b.store.(client.WithWatch)
	if !ok {
		b.Fatalf("%T", b.store)
	}
	reads = new(int)
	b.resolver.Client = interceptor.NewClient(store, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, secret := obj.(*corev1.Secret); secret {
				*reads++
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	b.resolver.Secrets = secretcache.New(store, b.resolver.Client)
	return reads
}

// TestOneReadServesManyClusters checks that the passes over all clusters of an identity read its Secret once, and again after it has changed.
// Version and client change with it, so a login that was refused is tried again.
func TestOneReadServesManyClusters(t *testing.T) {
	b := newBench(t, secret("id", nil), account(), shared("team", nil))
	reads := b.counting()
	for title, user := range map[string]*infrav1.PortalCluster{"a Secret": user("a", "id"), "a PortalClusterIdentity": sharing("default", "b", "team")} {
		b.hold(user)
		passes := func() (last Identity) {
			*reads = 0
			for range 10 {
				id, o := b.resolver.Resolve(t.Context(), "default", user.Spec.IdentityRef)
				if !o.IsDone() {
					t.Fatalf("%s: %+v", title, o)
				}
				b.hold(user)
				if last.Portal != nil && (id.Portal != last.Portal || id.Version != last.Version) {
					t.Errorf("%s: the same Secret makes another identity: its token and its refusals would be forgotten", title)
				}
				last = id
			}
			return last
		}
		before := passes()
		if *reads > 1 { // none if the Secret is not written when it is held
			t.Errorf("%s: 10 passes read the Secret %d times", title, *reads)
		}
		from, _ := b.resolver.read(t.Context(), "default", user.Spec.IdentityRef)
		changed := from.secret.DeepCopy()
		changed.Data[infrav1.IdentityPassword] = []byte("rotated")
		b.must(b.store.Update(t.Context(), changed))
		if after := passes(); *reads != 1 || after.Version == before.Version || after.Portal == before.Portal {
			t.Errorf("%s: after a change 10 passes read the Secret %d times, version %s after %s", title, *reads, after.Version, before.Version)
		}
	}
}

// TestUselessSecretIsNotKept checks that the content of a Secret that is no identity is not kept, and that keys which are added count at once.
func TestUselessSecretIsNotKept(t *testing.T) {
	incomplete := secret("id", func(data map[string][]byte) { delete(data, infrav1.IdentityPassword) })
	b := newBench(t, incomplete)
	reads := b.counting()
	ref := infrav1.PortalIdentityReference{Name: "id"}
	for range 2 {
		if _, o := b.resolver.Resolve(t.Context(), "default", ref); o.Reason != infrav1.IdentityInvalidReason {
			t.Errorf("%+v", o)
		}
	}
	if *reads != 2 {
		t.Errorf("%d reads: the content of a Secret that is no identity is kept", *reads)
	}
}
