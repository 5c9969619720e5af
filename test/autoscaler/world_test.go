// SPDX-License-Identifier: Apache-2.0

package autoscaler

import (
	"cmp"
	"context"
	"fmt"
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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	name = "scaled"

	minSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	maxSizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"

	// patience is longer than any of the awaited changes takes, even on a busy machine.
	patience = 4 * time.Minute
	// quiet is how long nothing must happen before a test assumes that nothing more will. It is several times as long as the autoscaler
	// takes to remove an idle node.
	quiet = time.Minute
)

// world is a Cluster whose MachineDeployment the autoscaler scales.
type world struct {
	*testing.T
	*WithT
	box        *sandbox.Sandbox
	account    string
	cluster    client.ObjectKey
	live       client.WithWatch // of the management cluster
	workload   client.WithWatch // of the workload cluster
	kubeconfig string           // file, of the workload cluster
	seen       record
}

// newWorld creates a Cluster that the autoscaler may scale down to minimum workers. It scales the Cluster to the given sizes in turn, so
// that the nodes have different ages.
func newWorld(t *testing.T, box *sandbox.Sandbox, minimum int, sizes ...int) *world {
	t.Helper()
	i := int(used.Add(1)) - 1
	if i >= accounts {
		t.Fatal("more tests than accounts: raise the constant")
	}
	w := &world{
		T: t, WithT: NewWithT(t), box: box, account: account(i),
		cluster: client.ObjectKey{Namespace: fmt.Sprintf("autoscaler-%d", i), Name: name},
	}
	w.SetDefaultEventuallyTimeout(patience)
	w.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	w.SetDefaultConsistentlyPollingInterval(200 * time.Millisecond)
	t.Cleanup(w.explain)
	var err error
	w.live, err = client.NewWithWatch(box.Config, client.Options{Scheme: box.Client.Scheme()})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(box.Client.Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.cluster.Namespace}})).To(Succeed())
	secret := box.IdentitySecret(client.ObjectKey{Namespace: w.cluster.Namespace, Name: "portal-identity"})
	secret.StringData[infrav1.IdentityEmail], secret.StringData[infrav1.IdentityPassword] = email(i), password(i)
	w.Expect(box.Client.Create(w.Context(), secret)).To(Succeed())
	w.create(minimum, sizes[0])
	w.settled(sizes[0])
	w.connect()
	for _, size := range sizes[1:] {
		w.scale(size)
		w.settled(size)
	}
	return w
}

// create applies the output of clusterctl, with the sizes between which the autoscaler may choose.
func (w *world) create(minimum, workers int) {
	w.Helper()
	objects, err := w.box.GenerateCluster(w.Context(), w.cluster, "--kubernetes-version", "v1.36.3",
		"--control-plane-machine-count", "1", "--worker-machine-count", strconv.Itoa(workers))
	w.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		if o.GetKind() == "MachineDeployment" {
			o.SetAnnotations(map[string]string{minSizeAnnotation: strconv.Itoa(minimum), maxSizeAnnotation: "8"})
		}
		w.Expect(w.box.Client.Create(w.Context(), o)).To(Succeed())
	}
}

// connect creates the clients of the workload cluster, and the kubeconfig file for the autoscaler.
func (w *world) connect() {
	w.Helper()
	kubeconfig, err := w.box.WorkloadKubeconfig(w.Context(), w.cluster)
	w.Expect(err).NotTo(HaveOccurred())
	w.kubeconfig = filepath.Join(w.box.Dir, w.cluster.Namespace+".kubeconfig")
	w.Expect(os.WriteFile(w.kubeconfig, kubeconfig, 0o600)).To(Succeed())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	w.Expect(err).NotTo(HaveOccurred())
	w.workload, err = client.NewWithWatch(config, client.Options{})
	w.Expect(err).NotTo(HaveOccurred())
}

// change patches an object and retries until the API server accepts the patch.
func change[T client.Object](w *world, c client.Client, o T, change func(T)) {
	w.Helper()
	w.Eventually(func() error {
		if err := c.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return c.Patch(w.Context(), o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}).Should(Succeed())
}

func (w *world) deployment() *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, Name: name + "-workers"}}
}

// scale sets the replicas as a person would.
func (w *world) scale(replicas int) {
	w.Helper()
	change(w, w.box.Client, w.deployment(), func(md *clusterv1.MachineDeployment) {
		md.Spec.Replicas = new(int32)
		*md.Spec.Replicas = int32(replicas) //nolint:gosec // A handful.
	})
}

// settled waits until that many worker nodes exist, each with a Ready Machine, and the provider has nothing left to do.
func (w *world) settled(workers int) {
	w.Helper()
	w.Eventually(func() (string, error) {
		machines := &clusterv1.MachineList{}
		if err := w.box.Client.List(w.Context(), machines, client.InNamespace(w.cluster.Namespace)); err != nil {
			return "", err
		}
		ready := 0
		for _, m := range machines.Items {
			if conditions.IsTrue(&m, clusterv1.MachineReadyCondition) && m.Status.NodeRef.IsDefined() {
				ready++
			}
		}
		controlPlane := &infrav1.PortalControlPlane{}
		if err := w.box.Client.Get(w.Context(), w.cluster, controlPlane); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d Machines, %d Ready, WorkersReady %t", len(machines.Items), ready,
			conditions.IsTrue(controlPlane, infrav1.WorkersReadyCondition)), nil
	}).Should(Equal(fmt.Sprintf("%d Machines, %[1]d Ready, WorkersReady true", workers)))
	if w.workload != nil {
		w.Eventually(w.nodes).Should(HaveLen(workers))
	}
}

// nodes returns the names of the worker nodes, oldest first.
func (w *world) nodes() (names []string) {
	w.Helper()
	list := &corev1.NodeList{}
	w.Expect(w.workload.List(w.Context(), list)).To(Succeed())
	slices.SortFunc(list.Items, func(a, b corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	for _, n := range list.Items {
		if _, control := n.Labels["node-role.kubernetes.io/control-plane"]; !control {
			names = append(names, n.Name)
		}
	}
	return names
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// requestLog returns the portal's request log of the account.
func (w *world) requestLog() []emulator.LogEntry {
	return slices.DeleteFunc(w.box.Portal.RequestLog(), func(e emulator.LogEntry) bool { return e.Account != w.account })
}

// removed returns the nodes that the portal has removed, in order.
func (w *world) removed() (names []string) {
	for _, e := range w.requestLog() {
		if e.Object == "node" && e.To == "removed" {
			names = append(names, e.ID)
		}
	}
	return names
}

// scaleRequests counts the scale requests that the portal has accepted.
func (w *world) scaleRequests() (count int) {
	for _, e := range w.requestLog() {
		if e.Method == "POST" && strings.HasSuffix(e.Route, "/scale") && e.Status == 202 {
			count++
		}
	}
	return count
}

// explain logs the record and the state of a failed test.
func (w *world) explain() {
	if w.Failed() {
		w.Log(w.seen.String())
		w.Log(w.box.Describe(context.WithoutCancel(w.Context()), w.cluster.Namespace, w.account))
		w.Log("autoscaler: ", w.logFile())
	}
}
