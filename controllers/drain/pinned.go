// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// safeToEvict is the annotation by which a user keeps the cluster autoscaler from evicting a Pod.
	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// podsTimeout bounds the list. The pages of a hostile API server may not end.
	podsTimeout = 10 * time.Second
)

// PinnedNodes returns the names of the Nodes with Pods that the cluster autoscaler must not evict. It lists the metadata of all Pods, and
// reads those with the annotation, which are usually few.
func PinnedNodes(ctx context.Context, workload client.Client) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	nodes := map[string]bool{}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for {
		if err := workload.List(ctx, all, client.Limit(500), client.Continue(all.Continue)); err != nil {
			return nil, err
		}
		for _, pod := range all.Items {
			if pod.Annotations[safeToEvict] != "false" {
				continue
			}
			full := &corev1.Pod{}
			if err := workload.Get(ctx, client.ObjectKeyFromObject(&pod), full); client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			if pinned(full) {
				nodes[full.Spec.NodeName] = true
			}
		}
		if all.Continue == "" {
			return nodes, nil
		}
	}
}

// pinned reports whether the cluster autoscaler must not evict the Pod.
func pinned(pod *corev1.Pod) bool {
	return pod.Annotations[safeToEvict] == "false" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}
