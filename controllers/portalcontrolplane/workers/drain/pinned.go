// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// safeToEvict is the annotation by which a user keeps the cluster autoscaler from evicting a Pod.
	safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// podsTimeout bounds the list. The pages of a hostile API server may not end.
	podsTimeout = 10 * time.Second
	// maxNamespaces is in how many namespaces the Pods are read one namespace after the other. If there are more, the Pods of all namespaces
	// are read, so that the number of requests depends on the number of Pods alone.
	maxNamespaces = 10
)

// placed selects the Pods that a Node runs, or is about to run. Those that have finished keep no Node.
var placed = fields.AndSelectors(
	fields.OneTermNotEqualSelector("spec.nodeName", ""),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)

// PinnedNodes returns the names of the Nodes with Pods that the cluster autoscaler must not evict. It lists the metadata of the Pods, which
// is small. Metadata does not name the Node, so the Pods of the namespaces that have such Pods are listed in full. They are usually few.
func PinnedNodes(ctx context.Context, workload client.Client) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	namespaces, nodes := map[string]bool{}, map[string]bool{}
	err := pages(ctx, workload, podMetadata, func(page *metav1.PartialObjectMetadataList) {
		for _, pod := range page.Items {
			if keepsNode(&pod) {
				namespaces[pod.Namespace] = true
			}
		}
	}, client.Limit(500), client.MatchingFieldsSelector{Selector: placed})
	if err != nil {
		return nil, err
	}
	if len(namespaces) > maxNamespaces {
		namespaces = map[string]bool{metav1.NamespaceAll: true}
	}
	for namespace := range namespaces {
		err := pages(ctx, workload, empty[corev1.PodList], func(page *corev1.PodList) {
			for _, pod := range page.Items {
				if keepsNode(&pod) {
					nodes[pod.Spec.NodeName] = true
				}
			}
		}, client.InNamespace(namespace), client.Limit(100), client.MatchingFieldsSelector{Selector: placed})
		if err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// keepsNode reports whether the cluster autoscaler must not evict the Pod.
func keepsNode(pod metav1.Object) bool { return pod.GetAnnotations()[safeToEvict] == "false" }

func podMetadata() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	return list
}

// empty returns a list of typed objects for pages.
func empty[L any]() *L { return new(L) }

// pages lists objects page by page, until the context ends, and calls each for every page. Each page is a list of its own, so no page outlives
// its call.
func pages[L client.ObjectList](ctx context.Context, from client.Reader, empty func() L, each func(L), opts ...client.ListOption) error {
	for next := ""; ; {
		page := empty()
		if err := from.List(ctx, page, append(opts[:len(opts):len(opts)], client.Continue(next))...); err != nil {
			return err
		}
		each(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
