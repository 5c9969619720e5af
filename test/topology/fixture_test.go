// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	name   = "demo"
	oldest = "v1.34.9"
	newer  = "v1.35.6"
	newest = "v1.36.3"
)

// fixture is one Cluster with a topology, in a namespace and an account of its own.
type fixture struct {
	*suite.Fixture
	cluster *clusterv1.Cluster
	class   *clusterv1.ClusterClass
	others  []client.Object // the templates of the class

	mu       sync.Mutex
	failures []string // messages of the failures that the topology controller has reported
}

// newFixture renders the flavor without applying it. Each number is the replicas of one MachineDeployment.
func newFixture(t *testing.T, replicas ...int32) *fixture {
	t.Helper()
	f := &fixture{Fixture: suite.NewFixture(t, box, suite.User("topology", accounts.Next(t)))}
	f.ClusterName = name
	f.Create(f.IdentitySecret("portal-identity"))
	f.render()
	one := f.cluster.Spec.Topology.Workers.MachineDeployments[0]
	f.cluster.Spec.Topology.Workers.MachineDeployments = nil
	for i, n := range replicas {
		md := *one.DeepCopy()
		md.Name, md.Replicas = fmt.Sprintf("workers-%d", i), &n
		f.cluster.Spec.Topology.Workers.MachineDeployments = append(f.cluster.Spec.Topology.Workers.MachineDeployments, md)
	}
	return f
}

// clusterctl runs the real clusterctl in the namespace, and returns its output.
func (f *fixture) clusterctl(args ...string) string {
	f.Helper()
	command := exec.CommandContext(f.Context(), box.Binary("clusterctl"), append(args, "-n", f.Namespace)...)
	command.Env = append(os.Environ(), box.Environment()...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	f.Expect(command.Run()).To(Succeed(), "%s", &problems)
	return out.String()
}

// render makes clusterctl generate the Cluster, its ClusterClass and the templates of the class.
func (f *fixture) render() {
	f.Helper()
	manifests := f.clusterctl("generate", "cluster", name, "--config", clusterctlConfig(), "--infrastructure", "portal:"+release,
		"--flavor", "topology", "--kubernetes-version", oldest)
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		f.Expect(err).NotTo(HaveOccurred())
		switch object.GetKind() {
		case "Cluster":
			f.cluster = &clusterv1.Cluster{}
			f.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, f.cluster)).To(Succeed())
		case "ClusterClass":
			f.class = &clusterv1.ClusterClass{}
			f.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, f.class)).To(Succeed())
		default:
			f.others = append(f.others, object)
		}
	}
	f.Expect(f.class).NotTo(BeNil(), "clusterctl adds the ClusterClass that the flavor names")
}

// apply creates the rendered objects, and begins to collect failures of the topology controller.
func (f *fixture) apply() {
	f.Helper()
	f.Create(f.class)
	for _, o := range f.others {
		f.Create(o)
	}
	f.Create(f.cluster)
	suite.Follow(f.T, live, &clusterv1.ClusterList{}, func(e watch.Event) {
		if cluster, ok := e.Object.(*clusterv1.Cluster); ok {
			f.note(conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition))
		}
	}, client.InNamespace(f.Namespace))
}

func (f *fixture) note(c *metav1.Condition) {
	if c == nil || c.Reason != clusterv1.ClusterTopologyReconciledFailedReason {
		return
	}
	if strings.HasPrefix(c.Message, "ClusterClass is not successfully reconciled") {
		return // the ClusterClass was changed a moment ago
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.failures, c.Message) {
		f.failures = append(f.failures, c.Message)
	}
}

// neverFailed checks that the topology controller has not reported a failure since apply.
func (f *fixture) neverFailed() {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Expect(f.failures).To(BeEmpty(), "failures that the topology controller has reported")
}

// scale sets the replicas of one MachineDeployment of the topology.
func (f *fixture) scale(i int, replicas int32) {
	f.Helper()
	suite.Change(f.Fixture, f.cluster, func(c *clusterv1.Cluster) { c.Spec.Topology.Workers.MachineDeployments[i].Replicas = &replicas })
}

func (f *fixture) controlPlane() *infrav1.PortalControlPlane {
	return &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
}

// settled waits until the topology is reconciled and the Cluster is available with this number of workers of its version.
func (f *fixture) settled(workers int) {
	f.Helper()
	version := f.cluster.Spec.Topology.Version
	f.Eventually(f.Condition(f.cluster, clusterv1.ClusterTopologyReconciledCondition)).Should(HavePrefix("True"))
	f.Eventually(f.Condition(f.cluster, clusterv1.ClusterAvailableCondition)).Should(HavePrefix("True"))
	f.Eventually(func() string {
		ready := 0
		machines := f.Machines()
		for _, m := range machines {
			if m.Spec.Version == version && conditions.IsTrue(&m, clusterv1.MachineReadyCondition) && conditions.IsTrue(&m, clusterv1.MachineUpToDateCondition) {
				ready++
			}
		}
		return fmt.Sprintf("%d Machines, %d Ready and up to date at %s", len(machines), ready, version)
	}).Should(Equal(fmt.Sprintf("%d Machines, %d Ready and up to date at %s", workers, workers, version)))
	f.Eventually(f.Condition(f.controlPlane(), infrav1.WorkersReadyCondition)).Should(HavePrefix("True"))
	f.Expect(f.nodes()).To(HaveLen(workers))
}

// nodes returns the UIDs of the worker Nodes by name, and checks that no worker Node is cordoned.
func (f *fixture) nodes() map[string]string {
	f.Helper()
	uids := map[string]string{}
	for _, n := range f.Nodes() {
		uids[n.Name] = string(n.UID)
		f.Expect(n.Spec.Unschedulable).To(BeFalse(), "Node %s is cordoned", n.Name)
	}
	return uids
}

// Requests as Changes returns them.
const (
	createRequest  = "POST kubernetes-clusters 202"
	scaleRequest   = "POST scale 202"
	upgradeRequest = "POST upgrade 202"
)
