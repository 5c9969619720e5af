// SPDX-License-Identifier: Apache-2.0

// Package drain evicts the Pods of a Node that no Machine claims, a few at a time. Core drains the Nodes of Machines, so the
// provider drains the others. Like kubectl drain, it evicts all Pods except those of DaemonSets and static Pods, and respects
// PodDisruptionBudgets.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// evictions is how many Pods one step evicts at most, so that a step is short. The next one follows a few seconds later.
const evictions = 10

// Progress describes how far the drain of a Node is.
type Progress struct {
	// Left is the number of Pods still on the Node, including those that are terminating.
	Left int
	// Blocked are the Pods that must not be evicted now, as namespace/name.
	Blocked []string
}

// attempts is how many Pods one step tries at most: a PodDisruptionBudget may hold many.
const attempts = 50

// Drainer drains Nodes of workload clusters.
type Drainer struct {
	// Config returns how to reach a workload cluster.
	Config func(ctx context.Context, cluster client.ObjectKey) (*rest.Config, error)
}

// Step evicts some of the Pods of a Node of the cluster and returns what is left. It does not wait for them to end.
func (d Drainer) Step(ctx context.Context, cluster client.ObjectKey, node string) (Progress, error) {
	config, err := d.Config(ctx, cluster)
	if err != nil {
		return Progress{}, err
	}
	workload, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Progress{}, err
	}
	return step(ctx, workload, node)
}

func step(ctx context.Context, workload kubernetes.Interface, node string) (Progress, error) {
	helper := &drain.Helper{
		Ctx: ctx, Client: workload, Out: io.Discard, ErrOut: io.Discard,
		Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, GracePeriodSeconds: -1,
	}
	list, errs := helper.GetPodsForDeletion(node)
	if len(errs) > 0 {
		return Progress{}, fmt.Errorf("list the Pods of Node %s: %w", node, errors.Join(errs...))
	}
	progress := Progress{}
	var failed []error
	evicted, tried := 0, 0
	for _, pod := range list.Pods() {
		progress.Left++
		if !pod.DeletionTimestamp.IsZero() || evicted == evictions || tried == attempts {
			continue
		}
		tried++
		switch err := helper.EvictPod(pod, policyv1.SchemeGroupVersion); {
		case err == nil:
			evicted++
		case apierrors.IsNotFound(err):
			progress.Left--
		case apierrors.IsTooManyRequests(err):
			progress.Blocked = append(progress.Blocked, pod.Namespace+"/"+pod.Name)
		default:
			failed = append(failed, fmt.Errorf("evict Pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return progress, errors.Join(failed...)
}

// String describes what the drain waits for.
func (p Progress) String() string {
	text := fmt.Sprintf("%d Pods left", p.Left)
	if len(p.Blocked) > 0 {
		shown := slices.Sorted(slices.Values(p.Blocked))
		text += ", of which a PodDisruptionBudget holds " + strings.Join(shown[:min(len(shown), 3)], ", ")
	}
	return text
}

// SafeToEvict is the annotation by which a user keeps the cluster autoscaler from evicting a Pod.
const SafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// Pinned reports whether the cluster autoscaler must not evict the Pod.
func Pinned(pod *corev1.Pod) bool {
	return pod.Annotations[SafeToEvict] == "false" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}
