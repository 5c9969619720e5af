// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// applied is the metadata of an object that kubectl applied.
func applied(annotations map[string]string) metav1.ObjectMeta {
	all := map[string]string{corev1.LastAppliedConfigAnnotation: `{"kind":"PortalCluster"}`}
	maps.Copy(all, annotations)
	return metav1.ObjectMeta{
		Namespace: "default", Name: "a", UID: "uid", Annotations: all, Labels: map[string]string{"l": "1"}, Finalizers: []string{"example.com/f"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
}

func trimmed[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	got, err := Trim(obj)
	if err != nil {
		t.Fatal(err)
	}
	kept, ok := got.(T)
	if !ok {
		t.Fatalf("%T", got)
	}
	return kept
}

// TestTrim checks what the manager's cache keeps.
func TestTrim(t *testing.T) {
	got := trimmed(t, &infrav1.PortalCluster{ObjectMeta: applied(map[string]string{"ours": "1"})})
	want := applied(map[string]string{"ours": "1", corev1.LastAppliedConfigAnnotation: ""})
	want.ManagedFields = nil
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Error(diff)
	}
	secret := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: applied(nil)}
	secret.ResourceVersion = "7"
	only := metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "uid", ResourceVersion: "7"}
	if diff := cmp.Diff(only, trimmed(t, secret).ObjectMeta); diff != "" {
		t.Errorf("a Secret: %s", diff)
	}
	if gone, err := Trim(toolscache.DeletedFinalStateUnknown{Key: "default/a"}); err != nil || gone != (toolscache.DeletedFinalStateUnknown{Key: "default/a"}) {
		t.Errorf("%v, %v", gone, err)
	}
}

// TestWritesSpareWhatIsTrimmed checks that a write from a trimmed object removes nothing that the object lacks, also if it removes the last
// annotation that the provider knows of.
func TestWritesSpareWhatIsTrimmed(t *testing.T) {
	scheme := schemes.Of(t, infrav1.AddToScheme)
	obj := &infrav1.PortalCluster{ObjectMeta: applied(map[string]string{"ours": "1"})}
	obj.ManagedFields = nil // the store makes its own
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(obj).Build()
	key := client.ObjectKey{Namespace: "default", Name: "a"}
	if err := store.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	cached := trimmed(t, obj)
	if err := (persist.Writer{Client: store}).Change(t.Context(), cached, func() { delete(cached.Annotations, "ours") }); err != nil {
		t.Fatal(err)
	}
	if err := store.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(applied(nil).Annotations, obj.Annotations); diff != "" {
		t.Error(diff)
	}
}
