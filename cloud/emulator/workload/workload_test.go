// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// binDir is the folder with the binaries of make kube.
const binDir = "../../../bin"

// patience is long enough on a busy machine for steps that take seconds on an idle one.
const patience = 10 * time.Minute

// TestLife checks one cluster through all operations of the portal.
func TestLife(t *testing.T) {
	t.Parallel()
	clusters := open(t)
	versions := Versions()
	old, next := versions[0], versions[1]
	want := emulator.Workload{ID: "c-1", Name: "life", Version: old, Nodes: []emulator.Node{
		{Name: "life-control-1", ID: "i-1", ControlPlane: true, Version: old},
		{Name: "life-worker-1", ID: "i-2", Version: old, ProviderID: "portal-instance://i-2"},
		{Name: "life-worker-2", ID: "i-3", Version: old},
	}}
	apply(t, clusters, want)
	client := connect(t, clusters, want.ID)

	t.Run("nodes are Ready and look like machines", func(t *testing.T) {
		g := NewWithT(t)
		checkNodes(t, client, want.Nodes)
		control, worker := getNode(t, client, "life-control-1"), getNode(t, client, "life-worker-1")
		g.Expect(control.Labels).To(HaveKey("node-role.kubernetes.io/control-plane"))
		g.Expect(control.Spec.Taints).To(ContainElement(HaveField("Key", "node-role.kubernetes.io/control-plane")))
		g.Expect(worker.Labels).NotTo(HaveKey("node-role.kubernetes.io/control-plane"))
		g.Expect(worker.Labels).To(HaveKeyWithValue("kubernetes.io/hostname", "life-worker-1"))
		g.Expect(worker.Status.Allocatable.Pods().Value()).To(BeEquivalentTo(110))
		g.Expect(worker.Status.Addresses).To(ContainElement(HaveField("Type", corev1.NodeInternalIP)))
	})
	t.Run("Pods run", func(t *testing.T) {
		deploy(t, client, "web")
		protect(t, client, "web", map[string]string{"app": "web"})
		NewWithT(t).Eventually(func() int { return runningPods(t, client) }).WithTimeout(patience).Should(Equal(2))
	})
	t.Run("a drain keeps budgets and ends", func(t *testing.T) { testDrain(t, clusters, want.ID, client) })
	t.Run("a Pod that a finalizer holds ends all the same", func(t *testing.T) { testHeldPod(t, client) })
	t.Run("applying the same again changes nothing", func(t *testing.T) {
		before := getNode(t, client, "life-worker-1")
		apply(t, clusters, want)
		if diff := cmp.Diff(before.Spec, getNode(t, client, "life-worker-1").Spec); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("an upgrade keeps kubeconfig, Nodes and Pods", func(t *testing.T) {
		g := NewWithT(t)
		before := getNode(t, client, "life-worker-1")
		want.Version = next
		for i := range want.Nodes {
			want.Nodes[i].Version = next
		}
		apply(t, clusters, want)
		version, err := client.Discovery().ServerVersion()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(version.GitVersion).To(Equal(next))
		checkNodes(t, client, want.Nodes)
		g.Expect(getNode(t, client, "life-worker-1").UID).To(Equal(before.UID))
		g.Expect(runningPods(t, client)).To(Equal(2))
	})
	t.Run("a machine that goes takes its Pods along", func(t *testing.T) {
		g := NewWithT(t)
		want.Nodes = want.Nodes[:2]
		bare := occupy(t, client, "life-worker-2")
		removed := apply(t, clusters, want)
		g.Expect(removed).To(HaveLen(1))
		g.Expect(removed[0]).To(And(HaveField("Machine", "i-3"), HaveField("Cordoned", true), HaveField("Ready", true), HaveField("By", BeEmpty())))
		g.Expect(removed[0].At).To(BeTemporally("~", time.Now(), patience))
		g.Expect(removed[0].Pods).To(ContainElement(bare))
		g.Expect(removed[0].Pods).NotTo(ContainElement(ContainSubstring("agent")), "a DaemonSet's Pod is not drained")
		checkNodes(t, client, want.Nodes)
		pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=life-worker-2"})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(pods.Items).To(BeEmpty())
		g.Eventually(func() int { return runningPods(t, client) }).WithTimeout(patience).Should(Equal(2), "replaced on the other worker")
	})
	t.Run("a machine with another id under the same name is another Node", func(t *testing.T) {
		g := NewWithT(t)
		before := getNode(t, client, "life-worker-1")
		want.Nodes[1].ID = "i-4"
		g.Expect(apply(t, clusters, want)).To(ConsistOf(And(HaveField("Machine", "i-2"), HaveField("Cordoned", false))))
		after := getNode(t, client, "life-worker-1")
		g.Expect(after.UID).NotTo(Equal(before.UID))
		g.Expect(after.Status.NodeInfo.MachineID).To(Equal("i-4"))
		checkNodes(t, client, want.Nodes)
	})
	t.Run("a deleted Node object comes back only with its kubelet's next start", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(client.CoreV1().Nodes().Delete(t.Context(), "life-worker-1", metav1.DeleteOptions{})).To(Succeed())
		apply(t, clusters, want)
		checkNodes(t, client, want.Nodes[:1])
		want.Nodes[1].Version = versions[2]
		apply(t, clusters, want)
		checkNodes(t, client, want.Nodes)
	})
	t.Run("a machine that is gone leaves its Node without heartbeats", func(t *testing.T) {
		g := NewWithT(t)
		want.Nodes[1].Gone = true
		g.Expect(apply(t, clusters, want)).To(ConsistOf(HaveField("Machine", "i-4")))
		g.Expect(apply(t, clusters, want)).To(BeEmpty(), "it went once")
		g.Eventually(func() bool { return ready(getNode(t, client, "life-worker-1")) }).
			WithTimeout(patience).WithPolling(time.Second).Should(BeFalse())
		want.Nodes = want.Nodes[:1]
		apply(t, clusters, want)
		checkNodes(t, client, want.Nodes)
	})
	t.Run("a rotation ends what was handed out before", func(t *testing.T) { testRotate(t, clusters, want) })
	t.Run("delete leaves nothing", func(t *testing.T) { testDelete(t, clusters, want.ID) })
}

func testDelete(t *testing.T, clusters *Clusters, id string) {
	g := NewWithT(t)
	pids := clusters.clusters[id].plane.PIDs()
	g.Expect(pids).To(HaveLen(4))
	g.Expect(clusters.Delete(t.Context(), id)).To(Succeed())
	for _, pid := range pids {
		g.Expect(errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)).To(BeTrue(), "process %d is still there", pid)
	}
	_, err := clusters.Kubeconfig(t.Context(), id)
	g.Expect(err).To(HaveOccurred())
	_, err = os.Stat(clusters.clusterDir(id))
	g.Expect(errors.Is(err, os.ErrNotExist)).To(BeTrue())
	g.Expect(clusters.Delete(t.Context(), id)).To(Succeed(), "an unknown id is no error")
}

// TestClustersAreApart checks that several clusters can run at the same time over one etcd.
func TestClustersAreApart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	clusters := open(t)
	newest := Versions()[len(Versions())-1]
	workload := func(i int) emulator.Workload {
		return emulator.Workload{
			ID: fmt.Sprintf("c-%d", i), Version: newest,
			Nodes: []emulator.Node{{Name: fmt.Sprintf("node-%d", i), ID: "i-1", Version: newest}},
		}
	}
	const count = 2
	failures := make(chan error, count)
	for i := range count {
		go func() {
			_, err := clusters.Apply(t.Context(), workload(i))
			failures <- err
		}()
	}
	for range count {
		g.Expect(<-failures).NotTo(HaveOccurred())
	}
	g.Expect(clusters.Delete(t.Context(), "c-0")).To(Succeed())
	checkNodes(t, connect(t, clusters, "c-1"), workload(1).Nodes)

	again := workload(0)
	again.Nodes = nil
	apply(t, clusters, again)
	checkNodes(t, connect(t, clusters, "c-0"), nil) // The deleted cluster's Nodes must not reappear.
}

func TestUnknownVersionStartsNothing(t *testing.T) {
	t.Parallel()
	clusters := open(t)
	_, err := clusters.Apply(t.Context(), emulator.Workload{ID: "c-1", Version: "v1.2.3"})
	if err == nil || !strings.Contains(err.Error(), "v1.2.3") || len(clusters.PIDs()) != 1 {
		t.Errorf("error %v, processes %v, want an error and only etcd", err, clusters.PIDs())
	}
}

func TestCloseBreaksOffAndLeavesNothing(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	clusters := open(t)
	newest := Versions()[len(Versions())-1]
	result := make(chan error, 1)
	go func() {
		_, err := clusters.Apply(t.Context(), emulator.Workload{ID: "c-1", Version: newest})
		result <- err
	}()
	etcd := clusters.PIDs()
	g.Eventually(func() error {
		_, err := os.Stat(filepath.Join(clusters.clusterDir("c-1"), "kube-apiserver.log"))
		return err
	}).WithTimeout(patience).Should(Succeed())
	g.Expect(clusters.Close()).To(Succeed())
	g.Expect(errors.Is(<-result, errClosed)).To(BeTrue())
	g.Expect(errors.Is(syscall.Kill(etcd[0], 0), syscall.ESRCH)).To(BeTrue())
	g.Expect(clusters.clusters["c-1"].plane.PIDs()).To(BeEmpty())
	_, err := clusters.Apply(t.Context(), emulator.Workload{ID: "c-2"})
	g.Expect(err).To(MatchError(errClosed))
}

// open starts Clusters that end with the test. It skips the test if PORTAL_TEST_WITHOUT_KUBE is set.
func open(t *testing.T) *Clusters {
	t.Helper()
	return openWith(t, Options{})
}

func openWith(t *testing.T, options Options) *Clusters {
	t.Helper()
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	// A host other than the default, because with kind the clusters are reached at the gateway of docker's network.
	options.BinDir, options.WorkDir, options.Bind = binDir, t.TempDir(), "127.0.0.2"
	clusters, err := New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := clusters.Close(); err != nil {
			t.Error(err)
		}
	})
	return clusters
}

func apply(t *testing.T, clusters *Clusters, want emulator.Workload) []emulator.Removal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := time.Now()
	removed, err := clusters.Apply(ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("applied %s with %d nodes in %.1f s", want.Version, len(want.Nodes), time.Since(begin).Seconds())
	return removed
}

// connect returns a client with the cluster's kubeconfig.
func connect(t *testing.T, clusters *Clusters, id string) *kubernetes.Clientset {
	t.Helper()
	return kubernetes.NewForConfigOrDie(config(t, clusters, id))
}

// checkNodes checks that the cluster has exactly these Nodes, Ready and with their kubelet's version.
func checkNodes(t *testing.T, client *kubernetes.Clientset, want []emulator.Node) {
	t.Helper()
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	has, wants := map[string]string{}, map[string]string{}
	for _, node := range list.Items {
		has[node.Name] = fmt.Sprintf("%s ready=%v", node.Status.NodeInfo.KubeletVersion, ready(&node))
	}
	for _, node := range want {
		wants[node.Name] = node.Version + " ready=true"
	}
	if diff := cmp.Diff(wants, has); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

func getNode(t *testing.T, client *kubernetes.Clientset, name string) *corev1.Node {
	t.Helper()
	node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func listPods(t *testing.T, client *kubernetes.Clientset) []corev1.Pod {
	t.Helper()
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func runningPods(t *testing.T, client *kubernetes.Clientset) int {
	t.Helper()
	return len(slices.DeleteFunc(listPods(t, client), func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
	}))
}

// TestVersions checks that the emulator offers by default the versions that can run here, oldest first.
func TestVersions(t *testing.T) {
	versions := Versions()
	var offered []string
	for _, version := range emulator.DefaultVersions() {
		offered = append(offered, version.SemanticVersion)
		if _, err := serverBinary(version.SemanticVersion); err != nil {
			t.Error(err)
		}
	}
	if len(versions) < 2 || !slices.IsSorted(versions) || !slices.Equal(versions, offered) {
		t.Errorf("versions %v, and %v are offered; want two or more", versions, offered)
	}
	_, err := serverBinary("v1.2.3")
	if err == nil || !strings.Contains(err.Error(), versions[0]) {
		t.Errorf("error %v, want one that lists the available versions", err)
	}
}

func TestMissingBinariesAreAnError(t *testing.T) {
	_, err := New(t.Context(), Options{BinDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "make kube") {
		t.Errorf("error %v, want one that names make kube", err)
	}
}

func TestAddressesThatCannotBeListenedOn(t *testing.T) {
	for _, address := range []string{"portal.example", "192.0.2.1"} {
		if clusters, err := New(t.Context(), Options{BinDir: binDir, WorkDir: t.TempDir(), Bind: address}); err == nil {
			t.Errorf("listens on %s", address)
			_ = clusters.Close()
		} else if !strings.Contains(err.Error(), address) {
			t.Error(err)
		}
	}
}
