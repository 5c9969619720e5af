// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Workload returns a client of the Cluster's API server, with the kubeconfig that the provider stored. It makes a new client only if the
// kubeconfig has changed: a new client connects and reads all kinds, and tests call Workload several times a second.
func (f *Fixture) Workload() client.Client {
	f.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.ClusterName + "-kubeconfig"}}
	f.Get(secret)
	if stored := secret.Data["value"]; f.workload == nil || f.kubeconfig != string(stored) {
		config, err := clientcmd.RESTConfigFromKubeConfig(stored)
		f.Expect(err).NotTo(HaveOccurred())
		f.workload, err = client.New(config, client.Options{})
		f.Expect(err).NotTo(HaveOccurred())
		f.kubeconfig = string(stored)
	}
	return f.workload
}

// AllNodes returns the Nodes of the Cluster, including the control nodes.
func (f *Fixture) AllNodes() []corev1.Node {
	f.Helper()
	list := &corev1.NodeList{}
	f.Expect(f.Workload().List(f.Context(), list)).To(Succeed())
	return list.Items
}

// Nodes returns the worker Nodes of the Cluster.
func (f *Fixture) Nodes() []corev1.Node {
	f.Helper()
	return slices.DeleteFunc(f.AllNodes(), func(n corev1.Node) bool { return !IsWorker(&n) })
}

// IsWorker reports whether the Node is a worker.
func IsWorker(node metav1.Object) bool {
	_, control := node.GetLabels()["node-role.kubernetes.io/control-plane"]
	return !control
}
