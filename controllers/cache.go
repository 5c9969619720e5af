// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trim drops the parts of an object that no controller reads before the manager's cache stores it. Writes are patches from the
// cached object to a changed copy of it, so they do not touch what is missing in both.
//
// The annotation of kubectl apply stays, without its content. A patch that removed the last annotation known to the cache would
// remove all annotations.
func Trim(obj any) (any, error) {
	if secret, ok := obj.(*metav1.PartialObjectMetadata); ok && secret.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret") {
		return trimSecret(secret), nil
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil //nolint:nilerr // not an object: the tombstone of a deleted one
	}
	if accessor.GetManagedFields() != nil { // an object that is in the cache already must not be changed
		accessor.SetManagedFields(nil)
	}
	if annotations := accessor.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		annotations[corev1.LastAppliedConfigAnnotation] = ""
		accessor.SetAnnotations(annotations)
	}
	return obj, nil
}

// trimSecret keeps what identifies a Secret and shows that it has changed. Its content is never in the cache, but the annotation
// of kubectl apply may contain it too.
func trimSecret(s *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: s.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion,
		CreationTimestamp: s.CreationTimestamp, DeletionTimestamp: s.DeletionTimestamp,
	}}
}
