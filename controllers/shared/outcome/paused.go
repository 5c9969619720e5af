// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// EnsurePaused sets the condition Paused and reports whether the object is paused, like paused.EnsurePausedCondition. For a new
// object that is not paused, ReportNotPaused sets the condition together with the other ones, which saves one request for each
// object.
func EnsurePaused(ctx context.Context, c client.Client, cluster *clusterv1.Cluster, obj paused.ConditionSetter) (isPaused, requeue bool, err error) {
	isNew := !conditions.Has(obj, clusterv1.PausedCondition)
	if cluster == nil {
		cluster = &clusterv1.Cluster{}
	}
	if isNew && !annotations.IsPaused(cluster, obj) {
		return false, false, nil
	}
	return paused.EnsurePausedCondition(ctx, c, cluster, obj)
}

// ReportNotPaused sets the condition Paused of a new object that is not paused, before the pass writes its status.
func ReportNotPaused(obj conditions.Setter) {
	if !conditions.Has(obj, clusterv1.PausedCondition) {
		Set(obj, clusterv1.PausedCondition, metav1.ConditionFalse, Outcome{Reason: clusterv1.NotPausedReason})
	}
}
