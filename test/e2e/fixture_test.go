// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	identityName = "portal-identity"
	version      = "v1.35.6" // of Kubernetes
	newer        = "v1.36.3"
)

// fixture is a test in a namespace of its own.
type fixture struct {
	*suite.Fixture
	begin int // entries of the request log before the test
}

// newFixture creates the namespace with the identity Secret.
func newFixture(t *testing.T, namespace string) *fixture {
	t.Helper()
	f := &fixture{Fixture: &suite.Fixture{T: t, WithT: suite.Patient(t), Box: env.home, Namespace: namespace}}
	f.begin = len(f.requestLog())
	f.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	f.Create(env.portal.identity(namespace))
	t.Cleanup(f.explain)
	return f
}

// explain logs the namespace's objects and the request log of a failed test.
func (f *fixture) explain() {
	f.Explain()
	if f.Failed() {
		entries, err := books[emulator.LogEntry](context.WithoutCancel(f.Context()), env.portal, "/request-log")
		f.Logf("request log: %v", err)
		for _, e := range entries[min(f.begin, len(entries)):] {
			f.Log(e.Time.Format("15:04:05.000"), e)
		}
	}
}

func (f *fixture) clusterctl(arguments ...string) string {
	f.Helper()
	printed, err := env.clusterctl.run(f.Context(), arguments...)
	f.Expect(err).NotTo(HaveOccurred())
	return printed
}

// apply applies the output of clusterctl generate cluster.
func (f *fixture) apply(name string, workers int) *clusterv1.Cluster {
	f.Helper()
	objects, err := yaml.ToUnstructured([]byte(f.clusterctl("generate", "cluster", name, "--target-namespace", f.Namespace,
		"--infrastructure", providerName, "--kubernetes-version", version, "--worker-machine-count", strconv.Itoa(workers))))
	f.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		// kube-proxy learns a moment later than clusterctl that core's webhooks are ready, and refuses connections until then.
		f.Eventually(func() error {
			return f.Box.Client.Apply(f.Context(), client.ApplyConfigurationFromUnstructured(&object), client.FieldOwner("e2e"))
		}).Should(Succeed(), "%s %s", object.GetKind(), object.GetName())
	}
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
}

// requestLog returns the entries of the portal's request log since the test began.
func (f *fixture) requestLog() []emulator.LogEntry {
	f.Helper()
	entries, err := books[emulator.LogEntry](f.Context(), env.portal, "/request-log")
	f.Expect(err).NotTo(HaveOccurred())
	return entries[f.begin:]
}

// changes returns the requests that try to change something, whether the portal accepted them or not.
func (f *fixture) changes() (all []string) {
	f.Helper()
	for _, e := range f.requestLog() {
		if e.IsChange() {
			all = append(all, e.String())
		}
	}
	return all
}

// holders returns the Machine that holds each Node.
func (f *fixture) holders() map[infrav1.BoundNode]string {
	f.Helper()
	list := &infrav1.PortalMachineList{}
	f.List(list)
	all := map[infrav1.BoundNode]string{}
	for _, claim := range list.Items { // claims have the names of their Machines
		if claim.Spec.Node != nil {
			all[*claim.Spec.Node] = claim.Name
		}
	}
	return all
}

// remove deletes Clusters, and waits until nothing is left in the namespace and at the portal, except the identity Secret, which belongs to
// the user. Until then the portal has refused no request as a violation of the specification, and no container was restarted.
func (f *fixture) remove(clusters ...*clusterv1.Cluster) {
	f.Helper()
	for _, cluster := range clusters {
		f.Expect(f.Box.Client.Delete(f.Context(), cluster)).To(Succeed())
	}
	f.Eventually(func() []string {
		return f.Left(&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
			&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{}, &infrav1.PortalMachineTemplateList{},
			&corev1.SecretList{})
	}).Should(ConsistOf("*v1.Secret "+identityName), "objects left in the namespace")
	left, err := books[emulator.Cluster](f.Context(), env.portal, "/clusters")
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(left).To(BeEmpty(), "clusters left at the portal")
	for _, entry := range f.requestLog() {
		f.Expect(entry.Violation).To(BeEmpty(), "violation of the portal's specification: %s", entry)
	}
	all, err := pods(f.Context(), providerNamespace, portalNamespace)
	f.Expect(err).NotTo(HaveOccurred())
	for _, pod := range all {
		for _, container := range pod.Status.ContainerStatuses {
			f.Expect(container.RestartCount).To(BeZero(), "restarts of %s in Pod %s/%s", container.Name, pod.Namespace, pod.Name)
		}
	}
}
