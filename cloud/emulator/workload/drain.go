// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// evictInterval is the pause between two attempts to evict the Pods that are left.
const evictInterval = 500 * time.Millisecond

// Drain implements emulator.Drainer.
func (c *Clusters) Drain(ctx context.Context, id, node string, atMost time.Duration) error {
	return c.with(ctx, id, false, func(ctx context.Context, cluster *cluster) error { return cluster.drain(ctx, node, atMost) })
}

// Stop implements emulator.Stopper.
func (c *Clusters) Stop(ctx context.Context, id, node string, stopped bool) error {
	return c.with(ctx, id, false, func(ctx context.Context, cluster *cluster) error { return cluster.setHeartbeats(ctx, node, !stopped) })
}

// Cordon implements emulator.Drainer.
func (c *Clusters) Cordon(ctx context.Context, id, node string, unschedulable bool) error {
	return c.with(ctx, id, false, func(ctx context.Context, cluster *cluster) error { return cluster.cordon(ctx, node, unschedulable) })
}

func (c *cluster) cordon(ctx context.Context, node string, unschedulable bool) error {
	err := c.patch(ctx, node, map[string]any{"spec": map[string]any{"unschedulable": unschedulable}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// drain evicts Pods until none is left that a drain evicts, or the time is over.
func (c *cluster) drain(ctx context.Context, node string, atMost time.Duration) error {
	if err := c.cordon(ctx, node, true); err != nil {
		return err
	}
	if err := c.refuseBarePods(ctx, node); err != nil {
		return err
	}
	for end := time.Now().Add(atMost); ; {
		left, err := c.evictAll(ctx, node)
		switch {
		case err != nil || len(left) == 0:
			return err
		case time.Now().After(end):
			return fmt.Errorf("it still runs %s", strings.Join(left, ", "))
		}
		select {
		case <-time.After(evictInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refuseBarePods returns an error that names the Pods without a controller, if they stay (emulator.Workload.BarePodsStay).
func (c *cluster) refuseBarePods(ctx context.Context, node string) error {
	if !c.barePodsStay {
		return nil
	}
	pods, err := c.podsOn(ctx, node)
	if err != nil {
		return err
	}
	var bare []string
	for _, pod := range pods {
		if drainable(&pod) && metav1.GetControllerOf(&pod) == nil {
			bare = append(bare, pod.Namespace+"/"+pod.Name)
		}
	}
	if len(bare) > 0 {
		return fmt.Errorf("it runs Pods without a controller, which nothing would start again: %s", strings.Join(bare, ", "))
	}
	return nil
}

// evictAll asks for the eviction of each Pod, and returns those that are still there. An eviction that is refused is tried again later.
func (c *cluster) evictAll(ctx context.Context, node string) (left []string, err error) {
	pods, err := c.podsOn(ctx, node)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if !drainable(&pod) {
			continue
		}
		left = append(left, pod.Namespace+"/"+pod.Name)
		err := c.evict(ctx, &pod)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) && !apierrors.IsInternalError(err) {
			return nil, err
		}
	}
	return left, nil
}

func (c *cluster) evict(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	return c.client.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
}
