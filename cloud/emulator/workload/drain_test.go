// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// testDrain drains a node on which a PodDisruptionBudget protects one of the Pods. The drain ends after its time, the Pod survives, and the
// node stays cordoned.
func testDrain(t *testing.T, clusters *Clusters, id string, client *kubernetes.Clientset) {
	g := NewWithT(t)
	const node = "life-worker-1"
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	for _, name := range []string{"precious", "other"} {
		_, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "main"}}},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	budgets := client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	protect(t, client, "precious", map[string]string{"app": "precious"})
	g.Eventually(func() int32 {
		budget, err := budgets.Get(t.Context(), "precious", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return budget.Status.CurrentHealthy
	}).WithTimeout(patience).Should(BeEquivalentTo(1))

	began := time.Now()
	err := clusters.Drain(t.Context(), id, node, 3*time.Second)
	g.Expect(err).To(MatchError(HaveSuffix("it still runs default/precious")))
	g.Expect(time.Since(began)).To(BeNumerically(">=", 3*time.Second))
	g.Expect(getNode(t, client, node).Spec.Unschedulable).To(BeTrue())
	_, err = pods.Get(t.Context(), "other", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Pod without a budget is evicted: %v", err)

	g.Expect(budgets.Delete(t.Context(), "precious", metav1.DeleteOptions{})).To(Succeed())
	g.Expect(clusters.Drain(t.Context(), id, node, patience)).To(Succeed())
	_, err = pods.Get(t.Context(), "precious", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	g.Expect(clusters.Cordon(t.Context(), id, node, false)).To(Succeed())
	g.Expect(getNode(t, client, node).Spec.Unschedulable).To(BeFalse())
	g.Expect(clusters.Drain(t.Context(), id, "life-worker-9", time.Second)).To(Succeed(), "a Node that does not exist")
	g.Eventually(func() int { return runningPods(t, client) }).WithTimeout(patience).Should(Equal(2))
}

// testHeldPod checks that the containers of a deleted Pod end, as under a real kubelet, while a finalizer holds the object.
func testHeldPod(t *testing.T, client *kubernetes.Clientset) {
	g := NewWithT(t)
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	_, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"test.example/held"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "held"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	phase := func() corev1.PodPhase {
		pod, err := pods.Get(t.Context(), "held", metav1.GetOptions{})
		if err != nil {
			return ""
		}
		return pod.Status.Phase
	}
	g.Eventually(phase).WithTimeout(patience).Should(Equal(corev1.PodRunning))
	g.Expect(pods.Delete(t.Context(), "held", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(phase).WithTimeout(patience).Should(Equal(corev1.PodSucceeded))
	_, err = pods.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(phase).WithTimeout(patience).Should(BeEmpty(), "the Pod is gone")
}
