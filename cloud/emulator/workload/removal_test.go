// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestDrainable checks which Pods count as running on a removed machine.
func TestDrainable(t *testing.T) {
	owned := func(kind string) metav1.ObjectMeta {
		yes := true
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: &yes}}}
	}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"bare":      {corev1.Pod{}, true},
		"replica":   {corev1.Pod{ObjectMeta: owned("ReplicaSet")}, true},
		"starting":  {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, true},
		"daemon":    {corev1.Pod{ObjectMeta: owned("DaemonSet")}, false},
		"static":    {corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}}, false},
		"succeeded": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, false},
		"failed":    {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, false},
	} {
		if got := drainable(&c.pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// occupy runs a bare Pod and a DaemonSet's Pod on a node, and then cordons the node. It returns the bare Pod's name.
func occupy(t *testing.T, client *kubernetes.Clientset, node string) string {
	t.Helper()
	g := NewWithT(t)
	const namespace = metav1.NamespaceSystem
	containers := []corev1.Container{{Name: "main", Image: "main"}}
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Spec: corev1.PodSpec{NodeName: node, Containers: containers}}
	labels := map[string]string{"app": "agent"}
	agent := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: containers}},
	}}
	_, err := client.AppsV1().DaemonSets(namespace).Create(t.Context(), agent, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		_, err := client.CoreV1().Pods(namespace).Create(t.Context(), bare, metav1.CreateOptions{})
		return err
	}).WithTimeout(patience).Should(Succeed(), "the namespace has its ServiceAccount")
	g.Eventually(func() int {
		pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node + ",status.phase=Running"})
		g.Expect(err).NotTo(HaveOccurred())
		return len(pods.Items)
	}).WithTimeout(patience).Should(Equal(2), "the bare Pod and the DaemonSet's run")
	found := getNode(t, client, node)
	found.Spec.Unschedulable = true
	_, err = client.CoreV1().Nodes().Update(t.Context(), found, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	return namespace + "/bare"
}
