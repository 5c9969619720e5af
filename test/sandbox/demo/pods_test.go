// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestEvicted checks that each evicted Pod is counted once, also if its end was not seen, and that one that went with its node is not counted.
func TestEvicted(t *testing.T) {
	pod := func(uid, reason string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
		if reason != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Reason: reason}}
		}
		return p
	}
	e := &evictions{}
	e.look(pod("a", evictedByAPI))
	e.look(pod("a", evictedByAPI))
	e.look(toolscache.DeletedFinalStateUnknown{Obj: pod("b", evictedByAPI)})
	e.look(pod("c", ""))
	e.look(pod("d", "DeletionByTaintManager"))
	e.look(toolscache.DeletedFinalStateUnknown{})
	if e.count() != 2 {
		t.Errorf("%d evicted Pods, want 2: %v", e.count(), e.pods)
	}
}
