// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/predicates"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// EventFilter lets through what carries the label of --watch-filter, and Secrets whatever they carry: users label what is
// to be reconciled, not what it refers to. Whoever maps a Secret to objects asks Watched for each.
func EventFilter(scheme *runtime.Scheme, log logr.Logger, watchFilterValue string) predicate.Predicate {
	return predicate.Or[client.Object](
		predicates.ResourceHasFilterLabel(scheme, log, watchFilterValue),
		predicate.NewPredicateFuncs(isSecret),
	)
}

// Watched tells whether --watch-filter leaves the object to this manager.
func Watched(obj client.Object, watchFilterValue string) bool {
	return watchFilterValue == "" || labels.HasWatchLabel(obj, watchFilterValue)
}

func isSecret(obj client.Object) bool {
	switch obj := obj.(type) {
	case *corev1.Secret:
		return true
	case *metav1.PartialObjectMetadata: // of a watch on metadata only
		return obj.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Secret")
	}
	return false
}
