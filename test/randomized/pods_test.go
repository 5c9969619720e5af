// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// ordinary is the label of Pods that may be evicted, unless a budget protects them for a while.
var ordinary = map[string]string{"app": "ordinary"}

// everyNode is a number of replicas larger than any number of nodes here.
const everyNode = 16

// runPods creates a Deployment with one Pod on each node that takes Pods. Without Pods no removal does harm. If a drained node
// becomes schedulable again, it has a Pod again within a second. A drain that evicts Pods takes core 20 seconds longer, so some
// lives have no Pods.
func (l *life) runPods(ctx context.Context) error {
	if l.seed%4 == 0 || l.plan.short && l.seed%2 == 0 {
		return nil
	}
	l.logf("with Pods")
	apart := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: ordinary},
		}},
	}}
	return l.workload.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "ordinary"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](everyNode),
			Selector: &metav1.LabelSelector{MatchLabels: ordinary},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: ordinary},
				Spec:       corev1.PodSpec{Affinity: apart, Containers: []corev1.Container{{Name: "main", Image: "ordinary"}}},
			},
		},
	})
}
