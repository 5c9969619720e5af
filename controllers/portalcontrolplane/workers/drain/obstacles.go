// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// lookTimeout bounds the look at a workload cluster.
	lookTimeout = 10 * time.Second
	// lookPage is how many Pods or budgets are listed at a time. Most Pods take less than 20 kB, and an answer may have 8 MiB.
	lookPage = 250
	// lookPages is how many pages are read: 10,000 objects. The API server may be a tenant's, and its pages may not end.
	lookPages = 40
	// maxNamed is how many objects an obstacle names.
	maxNamed = 3
)

// Obstacles looks once at what may stop an operation that drains the workers one after the other, and describes what it finds:
//
//  1. workers that are not Ready or are cordoned
//  2. Pods without a controller, because nothing replaces them, so that kubectl drain refuses to evict them
//  3. a worker whose Pods, without those of DaemonSets, request more CPU or memory than the other workers have free. Only the sums of the
//     containers' requests count, not affinities, taints, volumes or the sizes of single Pods
//  4. PodDisruptionBudgets that allow no disruption of their Pods
//
// What cannot be read is an obstacle too. The workers must be complete, with their allocatable resources.
func Obstacles(ctx context.Context, workload client.Client, workers []corev1.Node) []string {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	bound := func() client.Client { return &bounded{Client: workload, most: lookPages} }
	found := obstacles{}
	look := newLook(workers)
	for _, n := range workers {
		if !util.IsNodeReady(&n) {
			found.add("Nodes that are not Ready", n.Name)
		} else if n.Spec.Unschedulable {
			found.add("cordoned Nodes", n.Name)
		}
	}
	found.failed(ctx, "Pods", pages(ctx, bound(), empty[corev1.PodList], func(pods *corev1.PodList) {
		for i := range pods.Items {
			if look.sees(&pods.Items[i]) && !replaced(&pods.Items[i]) {
				found.add("Pods without a controller", pods.Items[i].Namespace, pods.Items[i].Name)
			}
		}
	}, client.Limit(lookPage)))
	for _, node := range look.tooFull() {
		found.add("no room for the Pods of one of these Nodes on the others", node)
	}
	found.failed(ctx, "PodDisruptionBudgets", pages(ctx, bound(), empty[policyv1.PodDisruptionBudgetList], func(budgets *policyv1.PodDisruptionBudgetList) {
		for _, b := range budgets.Items {
			if b.Status.DisruptionsAllowed < 1 && b.Status.ExpectedPods > 0 {
				found.add("PodDisruptionBudgets that allow no disruption", b.Namespace, b.Name)
			}
		}
	}, client.Limit(lookPage)))
	return found.describe()
}

// replaced reports whether a controller replaces the Pod elsewhere, or the Pod belongs to its Node: a DaemonSet's, or one that the kubelet has
// from a file.
func replaced(pod *corev1.Pod) bool {
	return metav1.GetControllerOf(pod) != nil || metav1.HasAnnotation(pod.ObjectMeta, corev1.MirrorPodAnnotationKey)
}

// amount is CPU in thousandths and memory in bytes.
type amount struct{ cpu, memory int64 }

func (a *amount) add(list corev1.ResourceList, sign int64) {
	a.cpu += sign * list.Cpu().MilliValue()
	a.memory += sign * list.Memory().Value()
}

// load is what the Pods of a worker request.
type load struct {
	free  amount // allocatable and not requested
	moves amount // requested by Pods that a drain evicts
	takes bool   // the worker takes Pods
}

// look adds up what Pods request. It keeps a few numbers for each worker, whatever the API server returns.
type look struct {
	names []string
	loads map[string]*load
	known bool // a worker reports what it can hold
}

func newLook(workers []corev1.Node) *look {
	l := &look{loads: map[string]*load{}}
	for _, n := range workers {
		l.names = append(l.names, n.Name)
		l.loads[n.Name] = &load{takes: util.IsNodeReady(&n) && !n.Spec.Unschedulable}
		l.loads[n.Name].free.add(n.Status.Allocatable, 1)
		l.known = l.known || len(n.Status.Allocatable) > 0
	}
	return l
}

// sees adds the Pod, and reports whether it runs on a worker.
func (l *look) sees(pod *corev1.Pod) bool {
	on, found := l.loads[pod.Spec.NodeName]
	if !found || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	stays := owner != nil && owner.Kind == "DaemonSet" || metav1.HasAnnotation(pod.ObjectMeta, corev1.MirrorPodAnnotationKey)
	for _, c := range pod.Spec.Containers {
		on.free.add(c.Resources.Requests, -1)
		if !stays {
			on.moves.add(c.Resources.Requests, 1)
		}
	}
	return true
}

// tooFull returns the workers whose Pods the others have no room for.
func (l *look) tooFull() (names []string) {
	for _, name := range l.names {
		room := amount{}
		for other, on := range l.loads {
			if other != name && on.takes {
				room.cpu += max(0, on.free.cpu)
				room.memory += max(0, on.free.memory)
			}
		}
		if moves := l.loads[name].moves; l.known && (moves.cpu > room.cpu || moves.memory > room.memory) {
			names = append(names, name)
		}
	}
	return names
}

// obstacles are the names of objects, by what is wrong with them.
type obstacles []obstacle

type obstacle struct {
	what  string
	names []string // at most maxNamed
	more  int
}

// add adds an object. A name that no API server of Kubernetes accepts is not repeated.
func (all *obstacles) add(what string, name ...string) {
	i := slices.IndexFunc(*all, func(o obstacle) bool { return o.what == what })
	if i < 0 {
		*all, i = append(*all, obstacle{what: what}), len(*all)
	}
	o := &(*all)[i]
	if len(o.names) == maxNamed {
		o.more++
		return
	}
	for _, part := range name {
		if len(part) > validation.DNS1123SubdomainMaxLength || len(validation.IsDNS1123Subdomain(part)) > 0 {
			name = []string{"one with a malformed name"}
			break
		}
	}
	o.names = append(o.names, strings.Join(name, "/"))
}

// failed adds what could not be listed. The error is an API server's text, so it is in the log only.
func (all *obstacles) failed(ctx context.Context, kind string, err error) {
	if err == nil {
		return
	}
	why := "the manager's log has the error"
	switch {
	case apierrors.IsForbidden(err):
		why = "forbidden"
	case ctx.Err() != nil:
		why = "no answer in time"
	}
	ctrl.LoggerFrom(ctx).Info("Cannot list objects of a workload cluster", "kind", kind, "error", fmt.Sprintf("%.500v", err))
	*all = append(*all, obstacle{what: kind + " that cannot be listed", names: []string{why}})
}

func (all *obstacles) describe() (found []string) {
	for _, o := range *all {
		text := o.what + ": " + strings.Join(o.names, ", ")
		if o.more > 0 {
			text += fmt.Sprintf(" and %d more", o.more)
		}
		found = append(found, text)
	}
	return found
}
