// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// runPods has the Cluster run Pods that may be evicted, in every other life: a drain that evicts takes core 20 seconds
// longer, and there are to be both. Fixed lives of make test have no time for it.
func (l *life) runPods(ctx context.Context) error {
	if l.plan.short || l.seed%2 != 0 {
		return nil
	}
	labels := map[string]string{"app": "ordinary"}
	l.say("with Pods that may be evicted")
	return l.workload.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "ordinary"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](6),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "ordinary"}}},
			},
		},
	})
}
