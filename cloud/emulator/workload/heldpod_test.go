// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

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
