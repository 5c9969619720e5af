// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// removeMachine removes a machine in the given way. It returns how Kubernetes saw the machine before, also if the removal fails half
// way: then the Node object may be gone, and nothing could be read later.
func (c *cluster) removeMachine(ctx context.Context, node *corev1.Node, way func(context.Context, *corev1.Node) error) ([]emulator.Removal, error) {
	removal, err := c.removalOf(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("look at node %s: %w", node.Name, err)
	}
	if err = way(ctx, node); err != nil {
		err = fmt.Errorf("remove node %s: %w", node.Name, err)
	}
	return []emulator.Removal{removal}, err
}

// removalOf reads what a machine that is about to be removed runs. The Node is read again: while the machines before it were
// removed, it may have been cordoned or drained.
func (c *cluster) removalOf(ctx context.Context, node *corev1.Node) (emulator.Removal, error) {
	switch fresh, err := c.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{}); {
	case err == nil:
		node = fresh
	case !apierrors.IsNotFound(err): // of a Node that was deleted a moment ago, the last state counts
		return emulator.Removal{}, err
	}
	pods, err := c.podsOn(ctx, node.Name)
	if err != nil {
		return emulator.Removal{}, err
	}
	removal := emulator.Removal{
		Machine: machineID(node), At: time.Now(), Cordoned: node.Spec.Unschedulable, Ready: ready(node),
	}
	for _, pod := range pods {
		name := pod.Namespace + "/" + pod.Name
		switch {
		case !drainable(&pod):
		case pod.DeletionTimestamp != nil:
			removal.Terminating = append(removal.Terminating, name)
		default:
			removal.Pods = append(removal.Pods, name)
		}
	}
	slices.Sort(removal.Pods)
	slices.Sort(removal.Terminating)
	return removal, nil
}

// drainable reports whether a drain would have to evict the Pod: it has not ended, and neither a DaemonSet nor the kubelet
// itself keeps it on the node.
func drainable(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !ended && !mirror && (owner == nil || owner.Kind != "DaemonSet")
}

func (c *cluster) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := c.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}
