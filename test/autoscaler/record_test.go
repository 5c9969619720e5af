// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// record holds the events of a Cluster while the autoscaler ran.
type record struct {
	mu       sync.Mutex
	replicas []int32
	killed   []string // Pods that ended without an eviction
	evicted  []string // Pods that were evicted
	lines    []string // all events, with times
}

// observe starts the record. The record begins with the objects that exist.
func (f *fixture) observe() {
	f.Helper()
	suite.Follow(f.T, f.live, &clusterv1.MachineDeploymentList{}, func(e watch.Event) {
		if md, ok := e.Object.(*clusterv1.MachineDeployment); ok && e.Type != watch.Deleted {
			note(&f.seen, &f.seen.replicas, "replicas", *md.Spec.Replicas)
		}
	}, client.InNamespace(f.Namespace))
	suite.Follow(f.T, f.workload, &corev1.PodList{}, func(e watch.Event) {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type != watch.Deleted {
			return
		}
		what := fmt.Sprintf("%s on %s", pod.Name, pod.Spec.NodeName)
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "EvictionByEvictionAPI"
		}) {
			note(&f.seen, &f.seen.evicted, "evicted", what)
		} else {
			note(&f.seen, &f.seen.killed, "ended without an eviction", what)
		}
	}, client.InNamespace(corev1.NamespaceDefault))
	f.Eventually(f.seen.Replicas).ShouldNot(BeEmpty(), "the record must begin")
}

// note adds an event unless it repeats the last one of its kind.
func note[T comparable](r *record, events *[]T, kind string, what T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(*events); n == 0 || (*events)[n-1] != what {
		*events = append(*events, what)
		r.lines = append(r.lines, fmt.Sprintf("%s %s: %v", time.Now().Format(time.TimeOnly), kind, what))
	}
}

// forget drops the Pods that ended. Tests call it when they delete Pods themselves.
func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed, r.evicted = nil, nil
}

// Replicas returns all values that the replicas had.
func (r *record) Replicas() []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.replicas)
}

// Killed returns the Pods that ended without an eviction.
func (r *record) Killed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.killed)
}

// Ended returns all Pods that ended.
func (r *record) Ended() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.killed, r.evicted)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return "what happened:\n" + strings.Join(r.lines, "\n")
}
