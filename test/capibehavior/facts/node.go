// SPDX-License-Identifier: Apache-2.0

package facts

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

// node creates a Ready Node as a kubelet does. Its name contains the fixture's namespace, so Nodes of different fixtures have different
// names.
func (f *fixture) node(name string) *corev1.Node {
	f.Helper()
	full := f.namespace + "-" + name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: full, Labels: map[string]string{fixtureLabel: f.namespace}},
		Spec:       corev1.NodeSpec{ProviderID: "portal://" + f.namespace + "/" + name},
	}
	f.create(node)
	f.report(node, func(s *corev1.NodeStatus) {
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
func (f *fixture) becomes(node *corev1.Node, status corev1.ConditionStatus, since time.Time) {
	f.Helper()
	f.report(node, func(s *corev1.NodeStatus) { s.Conditions[len(s.Conditions)-1] = ready(status, since) })
}

// report changes a Node's status as a kubelet does.
func (f *fixture) report(node *corev1.Node, kubelet func(*corev1.NodeStatus)) {
	f.Helper()
	changeStatus(f, node, func(n *corev1.Node) { kubelet(&n.Status) })
}

// untouched checks that core has neither cordoned nor deleted the Node so far.
func (f *fixture) untouched(node *corev1.Node) {
	f.Helper()
	// The watch may be behind. Once it has seen this change, it has seen all earlier ones.
	var end string
	change(f, node, func(n *corev1.Node) {
		end = "after-" + n.ResourceVersion
		n.Labels["looked-at"] = end
	})
	f.Eventually(func() string {
		events := f.nodes.of(node.Name)
		return events[len(events)-1].object.Labels["looked-at"]
	}).Should(Equal(end))
	for _, e := range f.nodes.of(node.Name) {
		f.Expect(e.kind).NotTo(Equal(watch.Deleted), "Node %s was deleted", node.Name)
		f.Expect(e.object.Spec.Unschedulable).To(BeFalse(), "Node %s was cordoned", node.Name)
	}
}

// run creates a Pod that runs on the Node. It has no grace period, so it is gone as soon as core evicts it.
func (f *fixture) run(node *corev1.Node, name string) *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: node.Name + "-" + name, Labels: map[string]string{name: node.Name}},
		Spec: corev1.PodSpec{
			NodeName: node.Name, TerminationGracePeriodSeconds: ptr.To[int64](0), AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	f.create(pod)
	changeStatus(f, pod, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	return pod
}

// protect creates a PodDisruptionBudget that does not allow the eviction of the Pod.
func (f *fixture) protect(pod *corev1.Pod) {
	f.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		},
	}
	f.create(budget)
	changeStatus(f, budget, func(b *policyv1.PodDisruptionBudget) {
		b.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: b.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1,
		}
	})
}
