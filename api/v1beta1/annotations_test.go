// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDeletionProtected checks that a user who means to protect a cluster does, however they write it.
func TestDeletionProtected(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "True": true, "yes": true, "1": true, "": false, "false": false} {
		obj := &metav1.ObjectMeta{Annotations: map[string]string{DeletionProtectionAnnotation: value}}
		if got := DeletionProtected(obj); got != want {
			t.Errorf("%q protects: %t", value, got)
		}
	}
	if DeletionProtected(&metav1.ObjectMeta{}) {
		t.Error("an object without the annotation is protected")
	}
}
