// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// litter is in the name of everything that a user makes in the cluster that is deleted.
const litter = "litter"

// TestReuse checks that the API server of a deleted cluster serves the next cluster of its version, which has nothing of the deleted one and
// works like a new one, and that the API server of an upgraded cluster ends with it.
func TestReuse(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	clusters := openWith(t, Options{Reuse: true, NodeGrace: 5 * time.Minute})
	versions := Versions()
	want := func(id, version string) emulator.Workload {
		return emulator.Workload{ID: id, Version: version, Nodes: []emulator.Node{{Name: "node-1", ID: "i-1", Version: version}}}
	}
	apply(t, clusters, want("c-1", versions[0]))
	used := clusters.clusters["c-1"].plane
	made := keys(t, clusters, used)
	first := config(t, clusters, "c-1")
	makeLitter(t, first)
	g.Expect(keys(t, clusters, used)).To(ContainElement(ContainSubstring(litter)))

	g.Expect(clusters.Delete(t.Context(), "c-1")).To(Succeed())
	server := used.PIDs()
	g.Expect(server).To(HaveLen(1), "only the API server runs on")
	_, err := clusters.Kubeconfig(t.Context(), "c-1")
	g.Expect(err).To(HaveOccurred())
	g.Eventually(func() error {
		_, err := kubernetes.NewForConfigOrDie(first).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err
	}).WithTimeout(patience).Should(MatchError(ContainSubstring("connection refused")))

	apply(t, clusters, want("c-2", versions[0]))
	g.Expect(used.PIDs()).To(And(HaveLen(4), ContainElement(server[0])))
	second := config(t, clusters, "c-2")
	client := kubernetes.NewForConfigOrDie(second)
	t.Run("credentials of the deleted cluster are refused", func(t *testing.T) {
		g := NewWithT(t)
		stale := rest.CopyConfig(second)
		stale.CertData, stale.KeyData = first.CertData, first.KeyData
		_, err := kubernetes.NewForConfigOrDie(stale).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		g.Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
		g.Expect(first.CAData).NotTo(Equal(second.CAData))
		g.Expect(first.Host).NotTo(Equal(second.Host))
	})
	t.Run("nothing of the deleted cluster is left", func(t *testing.T) {
		g := NewWithT(t)
		checkNodes(t, client, want("c-2", versions[0]).Nodes)
		g.Expect(getNode(t, client, "node-1").Labels).NotTo(HaveKey(litter))
		g.Expect(listPods(t, client)).To(BeEmpty())
		namespaces, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(namespaces.Items).To(HaveLen(4))
		g.Eventually(func() []string { return keys(t, clusters, used) }).WithTimeout(patience).
			ShouldNot(ContainElement(ContainSubstring(litter)), "the API server removes the APIService of a CRD some time later")
	})
	t.Run("it works like a new cluster", func(t *testing.T) {
		g := NewWithT(t)
		g.Eventually(func() []string { return keys(t, clusters, used) }).WithTimeout(patience).Should(ContainElements(made))
		deploy(t, client, "web")
		g.Eventually(func() int { return runningPods(t, client) }).WithTimeout(patience).Should(Equal(2))
	})
	t.Run("the API server of an upgraded cluster ends with it", func(t *testing.T) {
		g := NewWithT(t)
		apply(t, clusters, want("c-2", versions[1]))
		g.Expect(clusters.Delete(t.Context(), "c-2")).To(Succeed())
		g.Expect(clusters.PIDs()).To(HaveLen(1), "only etcd is left")
		started, reused := clusters.Starts()
		g.Expect([]int{started, reused}).To(Equal([]int{2, 1}))
	})
}

// makeLitter makes objects of many kinds as a user, and waits until the Pods run.
func makeLitter(t *testing.T, config *rest.Config) {
	t.Helper()
	g := NewWithT(t)
	client := kubernetes.NewForConfigOrDie(config)
	meta := metav1.ObjectMeta{Name: litter}
	deploy(t, client, litter)
	protect(t, client, litter, nil)
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().ConfigMaps(litter).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+litter+`":"yes"}}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	kinds := dynamic.NewForConfigOrDie(config)
	definitions := kinds.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err = definitions.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "litters.litter.example"},
		"spec": map[string]any{
			"group": "litter.example", "scope": "Namespaced",
			"names": map[string]any{"kind": "Litter", "listKind": "LitterList", "plural": "litters", "singular": "litter"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	objects := kinds.Resource(schema.GroupVersionResource{Group: "litter.example", Version: "v1", Resource: "litters"}).Namespace(litter)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "litter.example/v1", "kind": "Litter",
		"metadata": map[string]any{"name": litter, "finalizers": []any{"litter.example/held"}},
	}}
	g.Eventually(func() error {
		_, err := objects.Create(t.Context(), object.DeepCopy(), metav1.CreateOptions{})
		return err
	}).WithTimeout(patience).Should(Succeed(), "the API server serves the kind")
	g.Eventually(func() int { return runningPods(t, client) }).WithTimeout(patience).Should(Equal(2))
}

// deploy creates a Deployment with two Pods, on two nodes if there are two.
func deploy(t *testing.T, client *kubernetes.Clientset, name string) {
	t.Helper()
	replicas, labels := int32(2), map[string]string{"app": name}
	_, err := client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: name, Image: name}},
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// protect creates a PodDisruptionBudget that needs one of the Pods with the labels.
func protect(t *testing.T, client *kubernetes.Clientset, name string, labels map[string]string) {
	t.Helper()
	one := intstr.FromInt32(1)
	_, err := client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// config returns a client configuration with the cluster's kubeconfig.
func config(t *testing.T, clusters *Clusters, id string) *rest.Config {
	t.Helper()
	kubeconfig, err := clusters.Kubeconfig(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// keys returns the keys of all objects in etcd but events, whose names are random.
func keys(t *testing.T, clusters *Clusters, p *plane) []string {
	t.Helper()
	all, err := clusters.etcd.Keys(t.Context(), p.prefix())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(key string) bool { return strings.HasPrefix(key, "events/") })
}
