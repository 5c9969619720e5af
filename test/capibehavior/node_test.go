// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// node creates a Ready Node as a kubelet does. Its name contains the world's namespace, so Nodes of different worlds have different
// names.
func (w *world) node(name string) *corev1.Node {
	w.Helper()
	full := w.namespace + "-" + name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: full, Labels: map[string]string{worldLabel: w.namespace}},
		Spec:       corev1.NodeSpec{ProviderID: "portal://" + w.namespace + "/" + name},
	}
	w.create(workload, node)
	w.report(node, func(s *corev1.NodeStatus) {
		s.NodeInfo = corev1.NodeSystemInfo{MachineID: full, KubeletVersion: version}
		s.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
			ready(corev1.ConditionTrue, time.Now()),
		}
	})
	return node
}

func ready(status corev1.ConditionStatus, since time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: "Kubelet", Message: "said the kubelet", LastTransitionTime: metav1.NewTime(since),
	}
}

// becomes sets the Ready condition of the Node, which is its last condition, and its transition time.
func (w *world) becomes(node *corev1.Node, status corev1.ConditionStatus, since time.Time) {
	w.Helper()
	w.report(node, func(s *corev1.NodeStatus) { s.Conditions[len(s.Conditions)-1] = ready(status, since) })
}

// report changes a Node's status as a kubelet does.
func (w *world) report(node *corev1.Node, kubelet func(*corev1.NodeStatus)) {
	w.Helper()
	changeStatus(w, workload, node, func(n *corev1.Node) { kubelet(&n.Status) })
}

// untouched checks that core has neither cordoned nor deleted the Node so far.
func (w *world) untouched(node *corev1.Node) {
	w.Helper()
	// The watch may be behind. Once it has seen this change, it has seen all earlier ones.
	var end string
	change(w, workload, node, func(n *corev1.Node) {
		end = "after-" + n.ResourceVersion
		n.Labels["looked-at"] = end
	})
	w.Eventually(func() string {
		events := w.nodes.of(node.Name)
		return events[len(events)-1].object.Labels["looked-at"]
	}).Should(Equal(end))
	for _, e := range w.nodes.of(node.Name) {
		w.Expect(e.kind).NotTo(Equal(watch.Deleted), "Node %s was deleted", node.Name)
		w.Expect(e.object.Spec.Unschedulable).To(BeFalse(), "Node %s was cordoned", node.Name)
	}
}

// run creates a Pod that runs on the Node. It has no grace period, so it is gone as soon as core evicts it.
func (w *world) run(node *corev1.Node) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: node.Name, Labels: map[string]string{"on": node.Name}},
		Spec: corev1.PodSpec{
			NodeName: node.Name, TerminationGracePeriodSeconds: ptr.To[int64](0), AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	w.create(workload, pod)
	changeStatus(w, workload, pod, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	return pod
}

// protect creates a PodDisruptionBudget that does not allow the eviction of the Pod.
func (w *world) protect(pod *corev1.Pod) {
	w.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		},
	}
	w.create(workload, budget)
	changeStatus(w, workload, budget, func(b *policyv1.PodDisruptionBudget) {
		b.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: b.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1,
		}
	})
}
