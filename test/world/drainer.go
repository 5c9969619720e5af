// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evictInterval is how often a portal that drains asks again for the Pods that are left.
const evictInterval = 5 * time.Second

// Drain implements emulator.Drainer.
func (w *workloads) Drain(ctx context.Context, id, node string, atMost time.Duration) error {
	if err := w.Cordon(ctx, id, node, true); err != nil {
		return err
	}
	for end := time.Now().Add(atMost); ; time.Sleep(evictInterval) {
		left, err := w.evictAll(ctx, id, node)
		switch {
		case err != nil || len(left) == 0:
			return err
		case time.Now().After(end):
			return fmt.Errorf("it still runs %s", strings.Join(left, ", "))
		}
	}
}

// evictAll asks for the eviction of each Pod on the node, and returns those that are left.
func (w *workloads) evictAll(ctx context.Context, id, node string) (left []string, err error) {
	one := w.get(id)
	pods, err := one.pods(ctx)
	for i := range pods {
		if pods[i].Spec.NodeName != node {
			continue
		}
		w.world.note("the portal evicts %s", pods[i].Name)
		if refused := one.evict(pods[i].Namespace, pods[i].Name); refused != nil {
			left = append(left, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	return left, err
}

// cordoned reports whether the portal has cordoned the node last.
func (w *workloads) cordoned(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cordons[node]
}

// Cordon implements emulator.Drainer.
func (w *workloads) Cordon(ctx context.Context, id, node string, unschedulable bool) error {
	w.world.note("the portal makes node %s unschedulable: %t", node, unschedulable)
	w.mu.Lock()
	w.cordons[node] = unschedulable
	w.mu.Unlock()
	n := &corev1.Node{}
	if err := w.get(id).client.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := n.DeepCopy()
	n.Spec.Unschedulable = unschedulable
	return w.get(id).client.Patch(ctx, n, client.MergeFrom(before))
}
