// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const loopback = "127.0.0.1"

// fixture is the management cluster with the operator.
type fixture struct {
	*suite.Fixture
	kubelet *sandbox.Kubelet
}

// startOperator installs the operator's CRDs and runs it. Nothing calls its webhooks, but it needs their certificate.
func (f *fixture) startOperator() {
	f.Helper()
	f.InstallCRDs(f.Module(filepath.Join(root, "hack", "operator"), "sigs.k8s.io/cluster-api-operator"), "config", "crd", "bases")
	dir := filepath.Join(box.Dir, "operator")
	certificates := filepath.Join(dir, "certificates")
	f.Expect(os.MkdirAll(certificates, 0o700)).To(Succeed())
	ca, err := kubeserver.NewCA("operator")
	f.Expect(err).NotTo(HaveOccurred())
	pair, err := ca.Serve("capi-operator-webhook-service", loopback)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(pair.WriteTo(certificates, "tls")).To(Succeed())
	var ports [3]int
	for i := range ports {
		ports[i], err = kubeserver.FreePort(loopback)
		f.Expect(err).NotTo(HaveOccurred())
	}
	health := kubeserver.HostPort(loopback, ports[0])
	process, err := kubeserver.Start(f.Context(), kubeserver.Spec{
		Name: "operator", Path: filepath.Join(root, "bin", "capi-operator"), Log: filepath.Join(box.Dir, "operator.log"),
		Args: []string{
			"--health-addr=" + health, "--profiler-address=", "--diagnostics-address=" + kubeserver.HostPort(loopback, ports[1]), "--insecure-diagnostics",
			"--webhook-port=" + strconv.Itoa(ports[2]), "--webhook-cert-dir=" + certificates,
		},
		Env:   []string{"KUBECONFIG=" + box.Kubeconfig, "HOME=" + dir, "XDG_CONFIG_HOME=" + dir}, // it reads a user's clusterctl.yaml
		Ready: kubeserver.Probe("http://" + health + "/readyz"),
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Cleanup(process.Stop)
}

// core returns the Deployment of core's release, and its ServiceAccount.
func (f *fixture) core() (objects []*unstructured.Unstructured) {
	f.Helper()
	manifests, err := os.ReadFile(box.Binary("capi-core/core-components.yaml"))
	f.Expect(err).NotTo(HaveOccurred())
	all, err := sandbox.Parse(manifests)
	f.Expect(err).NotTo(HaveOccurred())
	for _, o := range all {
		if o.GetKind() == "Deployment" || o.GetKind() == "ServiceAccount" {
			objects = append(objects, o)
		}
	}
	f.Expect(objects).To(HaveLen(2))
	return objects
}

func (f *fixture) coreImage() string {
	f.Helper()
	containers, _, err := unstructured.NestedSlice(f.Find(f.core(), "Deployment").Object, "spec", "template", "spec", "containers")
	f.Expect(err).NotTo(HaveOccurred())
	return containers[0].(map[string]any)["image"].(string)
}

// provideCore creates the ConfigMap that the operator makes of core's release, which it would download from GitHub. If there is one with these
// labels, it downloads nothing.
func (f *fixture) provideCore() {
	f.Helper()
	var components []string
	for _, o := range f.core() {
		content, err := o.MarshalJSON()
		f.Expect(err).NotTo(HaveOccurred())
		components = append(components, string(content))
	}
	metadata, err := os.ReadFile(filepath.Join(f.Module(root, "sigs.k8s.io/cluster-api"), "metadata.yaml"))
	f.Expect(err).NotTo(HaveOccurred())
	core := f.Find(f.example(previous), "CoreProvider")
	version, _, err := unstructured.NestedString(core.Object, "spec", "version")
	f.Expect(err).NotTo(HaveOccurred())
	f.Create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: core.GetNamespace(), Name: "core-cluster-api-" + version, Labels: map[string]string{
			"provider.cluster.x-k8s.io/type": "core", "provider.cluster.x-k8s.io/name": core.GetName(), "provider.cluster.x-k8s.io/version": version,
			"managed-by.operator.cluster.x-k8s.io": "true",
		}},
		Data: map[string]string{"metadata": string(metadata), "components": strings.Join(components, "\n---\n")},
	})
}

// provide creates the ConfigMap of a release, with the commands of docs/install.md.
func (f *fixture) provide(r suite.Release) {
	f.Helper()
	dir := f.TempDir()
	file := filepath.Join(dir, "infrastructure-components.yaml")
	f.Expect(os.WriteFile(file, []byte(f.Components(r)), 0o600)).To(Succeed())
	name := "portal-" + r.Version
	f.Kubectl("create", "configmap", name, "--namespace=capportal-system",
		"--from-file=components="+file, "--from-file=metadata="+filepath.Join(r.Root, "metadata.yaml"))
	f.Kubectl("label", "configmap", name, "--namespace=capportal-system",
		"provider.cluster.x-k8s.io/name=portal", "provider.cluster.x-k8s.io/version="+r.Version)
}

// example returns the objects of the example, with the version of the release.
func (f *fixture) example(r suite.Release) []*unstructured.Unstructured {
	f.Helper()
	return f.Example("operator.yaml", "version: "+previous.Version, "version: "+r.Version)
}

// coreArguments returns the flags of core as the operator has installed it.
func (f *fixture) coreArguments() []string {
	f.Helper()
	d := &appsv1.Deployment{}
	f.Expect(box.Client.Get(f.Context(), client.ObjectKeyFromObject(f.Find(f.core(), "Deployment")), d)).To(Succeed())
	return d.Spec.Template.Spec.Containers[0].Args
}

// provider returns the InfrastructureProvider of the management cluster.
func (f *fixture) provider() *unstructured.Unstructured {
	f.Helper()
	found := f.Find(f.example(previous), "InfrastructureProvider")
	f.Get(found)
	return found
}

// runs waits until the operator has installed the release, and its Deployment is available.
func (f *fixture) runs(r suite.Release) {
	f.Helper()
	f.Eventually(func() []string {
		o := f.provider()
		version, _, _ := unstructured.NestedString(o.Object, "status", "installedVersion")
		state := []string{"installed " + version}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			c := c.(map[string]any)
			state = append(state, c["type"].(string)+" "+c["status"].(string))
		}
		d := &appsv1.Deployment{}
		key := client.ObjectKey{Namespace: o.GetNamespace(), Name: "capportal-controller-manager"}
		if err := box.Client.Get(f.Context(), key, d); err != nil {
			return append(state, err.Error())
		}
		return append(state, d.Spec.Template.Spec.Containers[0].Image, "available "+strconv.Itoa(int(d.Status.AvailableReplicas)))
	}).Should(ContainElements("installed "+r.Version, "ProviderInstalled True", "Ready True", r.Image(), "available 1"))
}

// ours returns the objects of the list's kind that belong to the provider.
func (f *fixture) ours(list client.ObjectList) (names []string) {
	f.Helper()
	f.Expect(box.Client.List(f.Context(), list, client.MatchingLabels{clusterv1.ProviderNameLabel: "infrastructure-portal"})).To(Succeed())
	f.Expect(meta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(client.Object).GetName())
		return nil
	})).To(Succeed())
	return names
}
