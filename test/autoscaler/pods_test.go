// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"slices"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// safeToEvict is the annotation with which a user keeps the autoscaler from evicting a Pod.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// newDeployment returns a Deployment whose Pods take three of the four CPUs of a node each. The autoscaler needs the node of such a Pod.
func newDeployment(name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: name,
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}},
				}}},
			},
		},
	}
}

// place runs one Pod of the Deployment on each of the given nodes. It cordons all other nodes until the Pods have a node.
func (f *fixture) place(deployment *appsv1.Deployment, on ...string) {
	f.Helper()
	var others []string
	for _, name := range f.nodes() {
		if !slices.Contains(on, name) {
			others = append(others, name)
		}
	}
	f.cordon(true, others...)
	deployment.Spec.Replicas = ptr.To(int32(len(on)))
	f.Expect(f.workload.Create(f.Context(), deployment)).To(Succeed())
	f.Eventually(func() []string { return f.running(deployment.Name) }).Should(ConsistOf(on), "nodes with a Pod of %s", deployment.Name)
	f.cordon(false, others...)
}

func (f *fixture) cordon(cordoned bool, names ...string) {
	f.Helper()
	for _, name := range names {
		suite.ChangeIn(f.Fixture, f.workload, node(name), func(n *corev1.Node) { n.Spec.Unschedulable = cordoned })
	}
}

// running returns the node of each running Pod of the Deployment.
func (f *fixture) running(deployment string) (nodes []string) {
	f.Helper()
	for _, pod := range f.pods(deployment) {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp.IsZero() {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return nodes
}

func (f *fixture) pods(deployment string) []corev1.Pod {
	f.Helper()
	list := &corev1.PodList{}
	f.Expect(f.workload.List(f.Context(), list, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": deployment})).To(Succeed())
	return list.Items
}

// protect creates a PodDisruptionBudget that allows no eviction of the Deployment's Pods, and waits until it is in force.
func (f *fixture) protect(deployment *appsv1.Deployment) *policyv1.PodDisruptionBudget {
	f.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: deployment.Spec.Selector},
	}
	f.Expect(f.workload.Create(f.Context(), budget)).To(Succeed())
	f.Eventually(func() (int64, error) {
		err := f.workload.Get(f.Context(), client.ObjectKeyFromObject(budget), budget)
		return budget.Status.ObservedGeneration, err
	}).Should(Equal(budget.Generation), "the disruption controller must observe the PodDisruptionBudget")
	return budget
}
