// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// collectGarbage deletes the objects whose owners are all gone, as kube-controller-manager does. No object is deleted in the foreground: core
// does not ask for that.
func (w *World) collectGarbage() {
	all, _ := w.management.store.list("/")
	there := map[types.UID]bool{}
	for _, u := range all {
		there[u.GetUID()] = true
	}
	for _, u := range all {
		owned := func(r metav1.OwnerReference) bool { return there[r.UID] }
		if len(u.GetOwnerReferences()) == 0 || u.GetDeletionTimestamp() != nil || slices.ContainsFunc(u.GetOwnerReferences(), owned) {
			continue
		}
		obj, uid := &unstructured.Unstructured{}, u.GetUID()
		obj.SetGroupVersionKind(outside(u))
		obj.SetNamespace(u.GetNamespace())
		obj.SetName(u.GetName())
		err := w.client.Delete(context.Background(), obj, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			w.Errorf("garbage collector: %v", err)
		}
		w.note("collected %s %s", u.GetKind(), u.GetName())
	}
}
