// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	name = "scaled"

	minSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	maxSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

	// quiet is how long nothing must happen before a test assumes that nothing more will. It is several times as long as the autoscaler
	// takes to remove an idle node.
	quiet = time.Minute
)

// fixture is a Cluster whose MachineDeployment the autoscaler scales.
type fixture struct {
	*suite.Fixture
	cluster    client.ObjectKey
	live       client.WithWatch // of the management cluster
	workload   client.WithWatch // of the workload cluster
	kubeconfig string           // file, of the workload cluster
	seen       record
}

// newFixture creates a Cluster that the autoscaler may scale down to minimum workers. It scales the Cluster to the given sizes in turn, so
// that the nodes have different ages.
func newFixture(t *testing.T, minimum int, sizes ...int) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{Fixture: suite.NewFixture(t, box, suite.User("autoscaler", accounts.Next(t)))}
	f.cluster, f.ClusterName = client.ObjectKey{Namespace: f.Namespace, Name: name}, name
	f.SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	t.Cleanup(f.explain)
	var err error
	f.live, err = suite.WatchClient(box)
	f.Expect(err).NotTo(HaveOccurred())
	f.Create(f.IdentitySecret("portal-identity"))
	f.create(minimum, sizes[0])
	f.settled(sizes[0])
	f.connect()
	for _, size := range sizes[1:] {
		f.scale(size)
		f.settled(size)
	}
	return f
}

// create applies the output of clusterctl, with the sizes between which the autoscaler may choose.
func (f *fixture) create(minimum, workers int) {
	f.Helper()
	objects, err := f.Box.GenerateCluster(f.Context(), f.cluster, "--kubernetes-version", "v1.36.3",
		"--control-plane-machine-count", "1", "--worker-machine-count", strconv.Itoa(workers))
	f.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		if o.GetKind() == "MachineDeployment" {
			o.SetAnnotations(map[string]string{minSizeAnnotation: strconv.Itoa(minimum), maxSizeAnnotation: "8"})
		}
		f.Create(o)
	}
}

// connect creates the clients of the workload cluster, and the kubeconfig file for the autoscaler.
func (f *fixture) connect() {
	f.Helper()
	kubeconfig, err := f.Box.WorkloadKubeconfig(f.Context(), f.cluster)
	f.Expect(err).NotTo(HaveOccurred())
	f.kubeconfig = filepath.Join(f.Box.Dir, f.Namespace+".kubeconfig")
	f.Expect(os.WriteFile(f.kubeconfig, kubeconfig, 0o600)).To(Succeed())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	f.Expect(err).NotTo(HaveOccurred())
	f.workload, err = client.NewWithWatch(config, client.Options{})
	f.Expect(err).NotTo(HaveOccurred())
}

func (f *fixture) deployment() *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name + "-workers"}}
}

// scale sets the replicas as a person would.
func (f *fixture) scale(replicas int) {
	f.Helper()
	suite.Change(f.Fixture, f.deployment(), func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = ptr.To(int32(replicas)) })
}

func (f *fixture) controlPlane() *infrav1.PortalControlPlane {
	return &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
}

// settled waits until that many worker nodes exist, each with a Ready Machine, and the provider has nothing left to do.
func (f *fixture) settled(workers int) {
	f.Helper()
	f.Eventually(f.Machines).Should(HaveLen(workers))
	f.Eventually(f.ReadyMachines).Should(Equal(workers))
	f.Eventually(f.Condition(f.controlPlane(), infrav1.WorkersReadyCondition)).Should(HavePrefix("True"))
	f.Eventually(f.nodes).Should(HaveLen(workers))
}

// nodes returns the names of the worker nodes, oldest first.
func (f *fixture) nodes() (names []string) {
	f.Helper()
	nodes := f.Nodes()
	slices.SortFunc(nodes, func(a, b corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// removed returns the nodes that the portal has removed, in order.
func (f *fixture) removed() (names []string) {
	for _, e := range f.RequestLog() {
		if e.Object == "node" && e.To == "removed" {
			names = append(names, e.ID)
		}
	}
	return names
}

// scaleRequests counts the scale requests that the portal has accepted.
func (f *fixture) scaleRequests() int {
	return len(slices.DeleteFunc(f.Changes(), func(request string) bool { return request != "POST scale 202" }))
}

// explain logs the record of a failed test and the path of the autoscaler's log.
func (f *fixture) explain() {
	if f.Failed() {
		f.Log(f.seen.String())
		f.Log("autoscaler: ", f.logFile())
	}
}
