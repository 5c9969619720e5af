// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestLedger: a namespace may delete what was noted for it while it was allowed to use the identity, and nothing else.
func TestLedger(t *testing.T) {
	b := newBench(t, account(), shared("team", nil))
	ref := sharing("default", "a", "team").Spec.IdentityRef
	resolve := func(namespace string) Identity {
		t.Helper()
		id, o := b.resolver.ResolveToDelete(t.Context(), namespace, ref)
		if !o.IsDone() {
			t.Fatalf("%+v", o)
		}
		return id
	}
	may := func(namespace, clusterID string) bool {
		return resolve(namespace).MayDelete(namespace, clusterID).IsDone()
	}
	for _, id := range []string{"one", "two"} {
		b.must(b.resolver.RecordCluster(t.Context(), resolve("default"), "default", id))
	}
	version := get(b, shared("team", nil)).ResourceVersion
	if err := b.resolver.RecordCluster(t.Context(), resolve("default"), "default", "one"); err != nil || get(b, shared("team", nil)).ResourceVersion != version {
		t.Errorf("what is noted already is written again: %v", err)
	}
	if !may("default", "anything") || may("never-allowed", "one") {
		t.Error("an allowed namespace may delete, and one that never was may not")
	}
	withdrawn := get(b, shared("team", nil))
	withdrawn.Spec.AllowedNamespaces = nil
	b.must(b.store.Update(t.Context(), withdrawn))
	for clusterID, want := range map[string]bool{"one": true, "two": true, "three": false, "": false} {
		if may("default", clusterID) != want {
			t.Errorf("may delete %q: %v", clusterID, !want)
		}
	}
	stale := resolve("default")
	b.must(b.resolver.ForgetCluster(t.Context(), resolve("default"), "default", "one"))
	if may("default", "one") || !may("default", "two") {
		t.Errorf("%+v", get(b, shared("team", nil)).Status.Clusters)
	}
	if err := b.resolver.ForgetCluster(t.Context(), stale, "default", "two"); !apierrors.IsConflict(err) {
		t.Errorf("a stale list was written: %v", err)
	}
	if err := b.resolver.RecordCluster(t.Context(), Identity{}, "default", "one"); err != nil {
		t.Errorf("a Secret of the namespace's own: %v", err)
	}
	if o := (Identity{}).MayDelete("default", "one"); !o.IsDone() {
		t.Errorf("%+v", o)
	}
}
