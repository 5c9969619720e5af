// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestEnsurePaused checks that only a new object which is not paused is left without a write of its own.
func TestEnsurePaused(t *testing.T) {
	paused := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}
	was := &metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: "Before"}
	for title, test := range map[string]struct {
		cluster         *clusterv1.Cluster
		before          *metav1.Condition
		isPaused, write bool
		want            metav1.ConditionStatus // in the end
	}{
		"new":                 {&clusterv1.Cluster{}, nil, false, false, metav1.ConditionFalse},
		"new, no Cluster":     {nil, nil, false, false, metav1.ConditionFalse},
		"new and paused":      {paused, nil, true, true, metav1.ConditionTrue},
		"not paused any more": {&clusterv1.Cluster{}, was, false, true, metav1.ConditionFalse},
	} {
		t.Run(title, func(t *testing.T) {
			obj := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			if test.before != nil {
				conditions.Set(obj, *test.before)
			}
			store, writes := stored(t, obj)
			isPaused, requeue, err := EnsurePaused(t.Context(), store, test.cluster, obj)
			if err != nil || isPaused != test.isPaused || requeue != test.write || *writes > 0 != test.write {
				t.Errorf("paused %t, requeue %t, %d writes: %v", isPaused, requeue, *writes, err)
			}
			ReportNotPaused(obj)
			if c := conditions.Get(obj, clusterv1.PausedCondition); c == nil || c.Status != test.want {
				t.Errorf("%+v", c)
			}
		})
	}
}
