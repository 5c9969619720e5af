// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// node registers a Node that is Ready, as a kubelet would. Nodes of different worlds do not get into each other's way.
func (w *world) node(name string) *corev1.Node {
	w.Helper()
	full := w.namespace + "-" + name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: full, Labels: map[string]string{worldLabel: w.namespace}},
		Spec:       corev1.NodeSpec{ProviderID: "portal://" + w.namespace + "/" + name},
	}
	w.Expect(workload.Create(w.Context(), node)).To(Succeed())
	w.report(node, func(s *corev1.NodeStatus) {
		s.NodeInfo = corev1.NodeSystemInfo{MachineID: full, KubeletVersion: version}
		for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
			s.Conditions = append(s.Conditions, corev1.NodeCondition{Type: pressure, Status: corev1.ConditionFalse})
		}
		s.Conditions = append(s.Conditions, ready(corev1.ConditionTrue, time.Now()))
	})
	return node
}

func ready(status corev1.ConditionStatus, since time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: "Kubelet", Message: "said the kubelet", LastTransitionTime: metav1.NewTime(since),
	}
}

// notReady has the Node be NotReady since then.
func (w *world) notReady(node *corev1.Node, since time.Time) {
	w.Helper()
	w.report(node, func(s *corev1.NodeStatus) {
		s.Conditions[len(s.Conditions)-1] = ready(corev1.ConditionFalse, since)
	})
}

// report changes a Node's status, as its kubelet would.
func (w *world) report(node *corev1.Node, change func(*corev1.NodeStatus)) {
	w.Helper()
	key := client.ObjectKeyFromObject(node)
	w.Expect(workload.Get(w.Context(), key, node)).To(Succeed())
	before := node.DeepCopy()
	change(&node.Status)
	w.Expect(workload.Status().Patch(w.Context(), node, client.MergeFrom(before))).To(Succeed())
}

// exists tells whether there is an object in the workload cluster.
func (w *world) exists(o client.Object) func() bool {
	return func() bool {
		err := workload.Get(w.Context(), client.ObjectKeyFromObject(o), o)
		w.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return !apierrors.IsNotFound(err)
	}
}

// untouched checks that until now core has neither cordoned nor deleted the Node.
func (w *world) untouched(node *corev1.Node) {
	w.Helper()
	// What the watch has not brought yet is not forgotten: this change comes after it.
	w.Expect(workload.Get(w.Context(), client.ObjectKeyFromObject(node), node)).To(Succeed())
	before, end := node.DeepCopy(), "after-"+node.ResourceVersion
	node.Labels["looked-at"] = end
	w.Expect(workload.Patch(w.Context(), node, client.MergeFrom(before))).To(Succeed())
	w.Eventually(func() string {
		events := w.nodes.of(node.Name)
		return events[len(events)-1].object.Labels["looked-at"]
	}).Should(Equal(end))
	for _, e := range w.nodes.of(node.Name) {
		w.Expect(e.kind).NotTo(Equal(watch.Deleted), "Node %s was deleted", node.Name)
		w.Expect(e.object.Spec.Unschedulable).To(BeFalse(), "Node %s was cordoned", node.Name)
	}
}

// run creates a Pod that runs on the Node, and goes at once when it is told to.
func (w *world) run(node *corev1.Node) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: node.Name, Labels: map[string]string{"on": node.Name}},
		Spec: corev1.PodSpec{
			NodeName: node.Name, TerminationGracePeriodSeconds: ptr.To[int64](0), AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	w.Expect(workload.Create(w.Context(), pod)).To(Succeed())
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.Expect(workload.Status().Update(w.Context(), pod)).To(Succeed())
	return pod
}

// protect creates a PodDisruptionBudget that has nothing left to spend on that Pod.
func (w *world) protect(pod *corev1.Pod) {
	w.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		},
	}
	w.Expect(workload.Create(w.Context(), budget)).To(Succeed())
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1,
	}
	w.Expect(workload.Status().Update(w.Context(), budget)).To(Succeed())
}
