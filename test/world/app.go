// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// app is what runs in each workload cluster: Pods that are placed again when they have gone, on the node with the fewest of them, and a
// budget that all evictions respect.
type app struct {
	// Pods that there should be.
	Pods int
	// Spare is how many of them may be missing at a time before evictions are refused.
	Spare int
}

// appBudget is the name of the application's budget.
const appBudget = "web"

func (app) namespace() string         { return "default" }
func (app) labels() map[string]string { return map[string]string{"app": "web"} }

func (one *workload) createBudget() error {
	spare := intstr.FromInt(one.app.Spare)
	return one.client.Create(context.Background(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: one.app.namespace(), Name: appBudget},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &spare, Selector: &metav1.LabelSelector{MatchLabels: one.app.labels()}},
	})
}

// runPods does what the scheduler, a ReplicaSet's controller and the kubelets do.
func (one *workload) runPods(w *World) {
	ctx := context.Background()
	nodes := &corev1.NodeList{}
	if err := one.client.List(ctx, nodes); err != nil {
		w.Fatal(err)
	}
	pods, err := one.pods(ctx)
	if err != nil {
		w.Fatal(err)
	}
	load := map[string]int{}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; schedulable(n) {
			load[n.Name] = 0
		}
	}
	have := map[string]bool{}
	for _, pod := range pods {
		have[pod.Name] = true
		if _, takesMore := load[pod.Spec.NodeName]; takesMore {
			load[pod.Spec.NodeName]++
		}
	}
	for i := range one.app.Pods {
		if !w.workloads.answers(one) {
			break
		}
		if name := fmt.Sprint("web-", i); !have[name] && len(load) > 0 {
			node := emptiest(load)
			load[node]++
			one.runPod(w, name, node)
		}
	}
	one.countBudget(w)
}

// tolerated is how long Pods stay on a node that is not Ready, unless they say otherwise.
const tolerated = 5 * time.Minute

// evictLost does what Kubernetes does about nodes that have not been Ready for long. The Pods there count as gone.
func (one *workload) evictLost(w *World) {
	ctx := context.Background()
	pods, err := one.pods(ctx)
	w.must(err)
	for _, n := range list[corev1.Node](w, one.server, schema.GroupResource{Resource: "nodes"}) {
		i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
		})
		switch {
		case i < 0:
		case time.Since(n.Status.Conditions[i].LastTransitionTime.Time) < tolerated:
			w.ask(one.taints)
		default:
			for j := range pods {
				if pods[j].Spec.NodeName == n.Name {
					w.note("Pod %s is lost with node %s", pods[j].Name, n.Name)
					w.must(client.IgnoreNotFound(one.client.Delete(ctx, &pods[j])))
				}
			}
		}
	}
}

// RollApp replaces all Pods of the application, as a new version of it does, so that they spread over the nodes that there are now.
func (w *World) RollApp() {
	for _, one := range w.workloads.all {
		pods, err := one.pods(context.Background())
		w.must(err)
		for i := range pods {
			w.must(one.client.Delete(context.Background(), &pods[i]))
		}
		one.runPods(w)
	}
}

// Spare sets how many Pods of the application may be missing at a time, as a change of its budget does. With 0, none can be evicted.
func (w *World) Spare(pods int) {
	w.note("budgets allow %d Pods to be missing", pods)
	for _, id := range slices.Sorted(maps.Keys(w.workloads.all)) {
		one := w.workloads.all[id]
		one.app.Spare = pods
		one.countBudget(w)
	}
}

func schedulable(n *corev1.Node) bool {
	_, control := n.Labels[controlPlaneLabel]
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return ready && !control && len(n.Spec.Taints) == 0 && !n.Spec.Unschedulable
}

func emptiest(load map[string]int) (best string) {
	for node, n := range load {
		if best == "" || n < load[best] || n == load[best] && node < best {
			best = node
		}
	}
	return best
}

func (one *workload) runPod(w *World, name, node string) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: one.app.namespace(), Name: name, Labels: one.app.labels(),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	if err := one.client.Create(context.Background(), pod); err != nil {
		w.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := one.client.Status().Update(context.Background(), pod); err != nil {
		w.Fatal(err)
	}
}

// allowed returns how many Pods may be evicted now.
func (one *workload) allowed(ctx context.Context) (int32, error) {
	pods, err := one.pods(ctx)
	return int32(max(0, len(pods)-(one.app.Pods-one.app.Spare))), err
}

// countBudget does what the disruption controller does.
func (one *workload) countBudget(w *World) {
	ctx := context.Background()
	budget := &policyv1.PodDisruptionBudget{}
	if err := one.client.Get(ctx, client.ObjectKey{Namespace: one.app.namespace(), Name: appBudget}, budget); err != nil {
		w.Fatal(err)
	}
	n, err := one.allowed(ctx)
	if err != nil {
		w.Fatal(err)
	}
	if budget.Status.ObservedGeneration != budget.Generation || budget.Status.DisruptionsAllowed != n {
		budget.Status.ObservedGeneration, budget.Status.DisruptionsAllowed = budget.Generation, n
		if err := one.client.Status().Update(ctx, budget); err != nil {
			w.Fatal(err)
		}
	}
}

// protected reports whether a budget allows no eviction of the Pod. That of the application is counted at once, and all others say it themselves.
func (one *workload) protected(ctx context.Context, key client.ObjectKey) (bool, error) {
	pod, budgets := &corev1.Pod{}, &policyv1.PodDisruptionBudgetList{}
	if err := one.client.Get(ctx, key, pod); err != nil {
		return false, err
	}
	if err := one.client.List(ctx, budgets, client.InNamespace(key.Namespace)); err != nil {
		return false, err
	}
	for _, b := range budgets.Items {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		allowed := b.Status.DisruptionsAllowed
		if b.Name == appBudget {
			if allowed, err = one.allowed(ctx); err != nil {
				return false, err
			}
		}
		if allowed == 0 {
			return true, nil
		}
	}
	return false, nil
}

// evictPod answers evictions: as API servers do, with 429 if the budget has nothing left.
func (one *workload) evictPod(w *World) func(namespace, pod string) *apierrors.StatusError {
	return func(namespace, name string) *apierrors.StatusError {
		ctx := context.Background()
		protected, err := one.protected(ctx, client.ObjectKey{Namespace: namespace, Name: name})
		if protected {
			return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		}
		if err == nil {
			err = one.client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
		if err == nil {
			w.evicted++
			w.note("evicted %s", name)
			return nil
		}
		var status *apierrors.StatusError
		if errors.As(err, &status) {
			return status
		}
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
	}
}
