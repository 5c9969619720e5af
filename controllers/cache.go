// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trim drops from an object what no controller reads before the manager's cache keeps it. Writes are patches from the cached object to a
// changed copy of it, so they do not touch what is missing in both.
//
// The annotation of kubectl apply stays, without its content. A patch that removes the last annotation it knows of removes all of them.
func Trim(obj any) (any, error) {
	if secret, ok := obj.(*metav1.PartialObjectMetadata); ok && secret.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret") {
		return trimSecret(secret), nil
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil //nolint:nilerr // no object: the note that one was deleted
	}
	if accessor.GetManagedFields() != nil { // an object that is in the cache already is not written to
		accessor.SetManagedFields(nil)
	}
	if annotations := accessor.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		annotations[corev1.LastAppliedConfigAnnotation] = ""
		accessor.SetAnnotations(annotations)
	}
	return obj, nil
}

// trimSecret returns what names a Secret and shows that it has changed. Its content is never in the cache, but the annotation of kubectl
// apply may hold it, too.
func trimSecret(s *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: s.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion,
		CreationTimestamp: s.CreationTimestamp, DeletionTimestamp: s.DeletionTimestamp,
	}}
}
