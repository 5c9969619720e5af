// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// The troubles of this file last until the acts of the sequence are done. Then mend ends them.

// kubeletLabel marks the Nodes for which kwok plays the kubelet.
const kubeletLabel, kubeletValue = "kwok.x-k8s.io/node", "fake"

func (l *life) mend(ctx context.Context) {
	for _, mend := range l.mends {
		if err := within(ctx, time.Minute, func() error { return mend(ctx) }); err != nil {
			l.logf("cannot mend: %v", err)
		}
	}
	l.mends = nil
}

func (l *life) workers() []string {
	l.seen.Lock()
	defer l.seen.Unlock()
	return slices.Sorted(maps.Keys(l.nodes))
}

// failNode ends the heartbeats of a node for long enough that Kubernetes notices.
func (l *life) failNode(ctx context.Context) (string, error) {
	names := l.workers()
	i, lasts := l.roll.IntN(1000), 22*time.Second+time.Duration(l.roll.Int64N(int64(20*time.Second)))
	if len(names) == 0 {
		return "", nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: names[i%len(names)]}}
	label := func(set func(*corev1.Node)) error {
		return within(ctx, time.Minute, func() error {
			if err := l.workload.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return client.IgnoreNotFound(err)
			}
			before := node.DeepCopy()
			set(node)
			return client.IgnoreNotFound(l.workload.Patch(ctx, node, client.MergeFrom(before)))
		})
	}
	err := label(func(n *corev1.Node) { delete(n.Labels, kubeletLabel) })
	until := time.Now().Add(lasts)
	l.mends = append(l.mends, func(ctx context.Context) error {
		if err := waitUntil(ctx, until); err != nil {
			return err
		}
		if !l.runs(node) {
			return nil // the portal has removed the machine: its Node object may be left, but no kubelet comes back
		}
		return label(func(n *corev1.Node) { n.Labels[kubeletLabel] = kubeletValue })
	})
	return fmt.Sprintf("node %s fails for %s", node.Name, lasts.Round(time.Second)), err
}

// block runs a Pod on each worker and protects the Pods with a PodDisruptionBudget that allows no disruption. The scheduler
// places the Pods, so a cordoned node gets none.
func (l *life) block(ctx context.Context) (string, error) {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "precious", Labels: map[string]string{"app": "precious"}}
	names := l.workers()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt(len(names))),
			Selector:     &metav1.LabelSelector{MatchLabels: meta.Labels},
		}}
	err := within(ctx, time.Minute, func() error { return l.workload.Create(ctx, budget) })
	if len(names) == 0 || apierrors.IsAlreadyExists(err) {
		return "", nil // once in a sequence
	}
	if err != nil {
		return "", err
	}
	for i, node := range names {
		pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Containers:   []corev1.Container{{Name: "main", Image: "precious"}},
		}}
		pod.Name = fmt.Sprintf("precious-%d-%d", l.sequence, i)
		err = errors.Join(err, within(ctx, time.Minute, func() error { return l.workload.Create(ctx, pod.DeepCopy()) }))
	}
	l.mends = append(l.mends, func(ctx context.Context) error {
		return errors.Join(
			client.IgnoreNotFound(l.workload.Delete(ctx, budget)),
			l.workload.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(meta.Namespace), client.MatchingLabels(meta.Labels), client.GracePeriodSeconds(0)))
	})
	return "drains are blocked", err
}

// faults are short faults of the portal. Those without a path strike scale and upgrade requests.
var faults = []struct {
	name string
	emulator.Fault
}{
	{"busy", emulator.Fault{Code: "RESOURCE_BUSY", Count: 2}},
	{"no capacity", emulator.Fault{Code: "INSUFFICIENT_CAPACITY", Count: 1}},
	{"maintenance", emulator.Fault{Status: 503, Count: 1}},
	{"server error", emulator.Fault{Status: 500, Count: 1}},
	{"cut before", emulator.Fault{Cut: true, Count: 1}},
	{"cut after", emulator.Fault{Cut: true, After: true, Count: 1}},
	{"answer late", emulator.Fault{Delay: 4 * time.Second, After: true, Count: 1}},
	{"answer spoiled", emulator.Fault{Body: emulator.BodyTruncated, Count: 1}},
	{"job fails", emulator.Fault{Job: emulator.JobFails, Count: 1}},
	{"job fails late", emulator.Fault{Job: emulator.JobFailsLate, Count: 1}},
	{"job forgotten", emulator.Fault{Job: emulator.JobForgotten, Count: 1}},
	{"job stuck", emulator.Fault{Job: emulator.JobStuck, Count: 1}},
	{"job slow", emulator.Fault{JobDelay: 8 * time.Second, Count: 2}},
	{"Node objects left behind", emulator.Fault{LeaveNodes: true, Count: 1}},
	{"polls fail", emulator.Fault{Method: "GET", Path: "/jobs/*", Status: 500, Count: 2}},
	{"token revoked", emulator.Fault{RevokeToken: true, Count: 1}},
}

func (l *life) fault(_ context.Context) (string, error) {
	drawn := faults[l.roll.IntN(len(faults))]
	f := drawn.Fault
	if f.Path == "" {
		f.Method, f.Path = "POST", "/kubernetes-clusters/*/*"
	}
	return "portal: " + drawn.name, l.inject(f, time.Now())
}
