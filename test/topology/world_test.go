// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	name     = "demo"
	oldest   = "v1.34.9"
	newer    = "v1.35.6"
	newest   = "v1.36.3"
	patience = 5 * time.Minute // CI hosts start API servers slowly
)

// world is one Cluster with a topology, in a namespace and an account of its own.
type world struct {
	*testing.T
	*WithT
	namespace string
	account   string
	cluster   *clusterv1.Cluster
	class     *clusterv1.ClusterClass
	others    []client.Object // the templates of the class

	mu       sync.Mutex
	failures []string // messages of the failures that the topology controller has reported
}

// newWorld renders the flavor without applying it. Each number is the replicas of one MachineDeployment.
func newWorld(t *testing.T, replicas ...int32) *world {
	t.Helper()
	i := int(used.Add(1)) - 1
	if i >= accounts {
		t.Fatal("more tests than accounts: raise the constant")
	}
	w := &world{T: t, WithT: NewWithT(t), namespace: fmt.Sprintf("topology-%d", i), account: account(i)}
	w.SetDefaultEventuallyTimeout(patience)
	w.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	secret := box.IdentitySecret(client.ObjectKey{Namespace: w.namespace, Name: "portal-identity"})
	secret.StringData[infrav1.IdentityEmail], secret.StringData[infrav1.IdentityPassword] = email(i), password(i)
	w.create(secret)
	w.render()
	one := w.cluster.Spec.Topology.Workers.MachineDeployments[0]
	w.cluster.Spec.Topology.Workers.MachineDeployments = nil
	for i, n := range replicas {
		md := *one.DeepCopy()
		md.Name, md.Replicas = fmt.Sprintf("workers-%d", i), &n
		w.cluster.Spec.Topology.Workers.MachineDeployments = append(w.cluster.Spec.Topology.Workers.MachineDeployments, md)
	}
	t.Cleanup(w.explain)
	return w
}

// clusterctl runs the real clusterctl in the namespace, and returns its output.
func (w *world) clusterctl(args ...string) string {
	w.Helper()
	command := exec.CommandContext(w.Context(), box.Binary("clusterctl"), append(args, "-n", w.namespace)...)
	command.Env = append(os.Environ(), box.Environment()...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	w.Expect(command.Run()).To(Succeed(), "%s", &problems)
	return out.String()
}

// render makes clusterctl generate the Cluster, its ClusterClass and the templates of the class.
func (w *world) render() {
	w.Helper()
	manifests := w.clusterctl("generate", "cluster", name, "--config", clusterctlConfig(), "--infrastructure", "portal:"+release,
		"--flavor", "topology", "--kubernetes-version", oldest)
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		w.Expect(err).NotTo(HaveOccurred())
		switch object.GetKind() {
		case "Cluster":
			w.cluster = &clusterv1.Cluster{}
			w.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, w.cluster)).To(Succeed())
		case "ClusterClass":
			w.class = &clusterv1.ClusterClass{}
			w.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, w.class)).To(Succeed())
		default:
			w.others = append(w.others, object)
		}
	}
	w.Expect(w.class).NotTo(BeNil(), "clusterctl adds the ClusterClass that the flavor names")
}

// apply creates the rendered objects, and begins to collect failures of the topology controller.
func (w *world) apply() {
	w.Helper()
	w.create(w.class)
	for _, o := range w.others {
		w.create(o)
	}
	w.create(w.cluster)
	w.listen()
}

func (w *world) create(o client.Object) {
	w.Helper()
	w.Expect(box.Client.Create(w.Context(), o)).To(Succeed())
}

// listen collects failures of the topology controller until the test ends.
func (w *world) listen() {
	w.Helper()
	events, err := live.Watch(w.Context(), &clusterv1.ClusterList{}, client.InNamespace(w.namespace))
	w.Expect(err).NotTo(HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if cluster, ok := event.Object.(*clusterv1.Cluster); ok {
				w.note(conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition))
			}
		}
	}()
	w.Cleanup(func() {
		events.Stop()
		<-done
	})
}

func (w *world) note(c *metav1.Condition) {
	if c == nil || c.Reason != clusterv1.ClusterTopologyReconciledFailedReason {
		return
	}
	if strings.HasPrefix(c.Message, "ClusterClass is not successfully reconciled") {
		return // the ClusterClass was changed a moment ago
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.failures, c.Message) {
		w.failures = append(w.failures, c.Message)
	}
}

// neverFailed checks that the topology controller has not reported a failure since apply.
func (w *world) neverFailed() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Expect(w.failures).To(BeEmpty(), "failures that the topology controller has reported")
}

// change patches an object until the API server accepts the patch.
func change[T client.Object](w *world, o T, change func(T)) {
	w.Helper()
	w.Eventually(func() error {
		if err := box.Client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return box.Client.Patch(w.Context(), o, client.MergeFrom(before))
	}).Should(Succeed())
}

// scale sets the replicas of one MachineDeployment of the topology.
func (w *world) scale(i int, replicas int32) {
	w.Helper()
	change(w, w.cluster, func(c *clusterv1.Cluster) { c.Spec.Topology.Workers.MachineDeployments[i].Replicas = &replicas })
}

// condition returns a function that reads one of the Cluster's conditions as "Status Reason: message".
func (w *world) condition(conditionType string) func() string {
	return w.conditionOf(w.cluster, conditionType)
}

func (w *world) conditionOf(o client.Object, conditionType string) func() string {
	return func() string {
		if err := box.Client.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err.Error()
		}
		getter, _ := o.(conditions.Getter)
		c := conditions.Get(getter, conditionType)
		if c == nil {
			return "none"
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}

func (w *world) controlPlane() *infrav1.PortalControlPlane {
	return &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
}

// settled waits until the topology is reconciled and the Cluster is available with this number of workers of its version.
func (w *world) settled(workers int) {
	w.Helper()
	version := w.cluster.Spec.Topology.Version
	w.Eventually(w.condition(clusterv1.ClusterTopologyReconciledCondition)).Should(HavePrefix("True"))
	w.Eventually(w.condition(clusterv1.ClusterAvailableCondition)).Should(HavePrefix("True"))
	w.Eventually(func() string {
		ready := 0
		machines := w.machines()
		for _, m := range machines {
			if m.Spec.Version == version && conditions.IsTrue(&m, clusterv1.MachineReadyCondition) && conditions.IsTrue(&m, clusterv1.MachineUpToDateCondition) {
				ready++
			}
		}
		return fmt.Sprintf("%d Machines, %d Ready and up to date at %s", len(machines), ready, version)
	}).Should(Equal(fmt.Sprintf("%d Machines, %d Ready and up to date at %s", workers, workers, version)))
	w.Eventually(w.conditionOf(w.controlPlane(), infrav1.WorkersReadyCondition)).Should(HavePrefix("True"))
	w.Expect(w.nodes()).To(HaveLen(workers))
}

// list reads the objects of the namespace into a list.
func (w *world) list(list client.ObjectList) {
	w.Helper()
	w.Expect(box.Client.List(w.Context(), list, client.InNamespace(w.namespace))).To(Succeed())
}

func (w *world) machines() []clusterv1.Machine {
	w.Helper()
	all := &clusterv1.MachineList{}
	w.list(all)
	return all.Items
}

// nodes returns the UIDs of the worker Nodes by name, and checks that no worker Node is cordoned.
func (w *world) nodes() map[string]string {
	w.Helper()
	kubeconfig := &corev1.Secret{}
	w.Expect(box.Client.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name + "-kubeconfig"}, kubeconfig)).To(Succeed())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data["value"])
	w.Expect(err).NotTo(HaveOccurred())
	workload, err := client.New(config, client.Options{})
	w.Expect(err).NotTo(HaveOccurred())
	all := &corev1.NodeList{}
	w.Expect(workload.List(w.Context(), all)).To(Succeed())
	uids := map[string]string{}
	for _, n := range all.Items {
		if _, control := n.Labels["node-role.kubernetes.io/control-plane"]; !control {
			uids[n.Name] = string(n.UID)
			w.Expect(n.Spec.Unschedulable).To(BeFalse(), "Node %s is cordoned", n.Name)
		}
	}
	return uids
}

// asked returns the requests of the account that change something at the portal, in order and without ids.
func (w *world) asked() (all []string) {
	for _, e := range w.requestLog() {
		if e.IsRequest() && e.Method != "GET" && e.Route != "/login" {
			parts := strings.Split(e.Route, "/")
			all = append(all, fmt.Sprintf("%s %s %d", e.Method, parts[len(parts)-1], e.Status))
		}
	}
	return all
}

// Requests as asked returns them.
const (
	createRequest  = "POST kubernetes-clusters 202"
	scaleRequest   = "POST scale 202"
	upgradeRequest = "POST upgrade 202"
)

func (w *world) requestLog() []emulator.LogEntry {
	return slices.DeleteFunc(box.Portal.RequestLog(), func(e emulator.LogEntry) bool { return e.Account != w.account })
}

// explain prints the objects and the portal's request log of a failed test.
func (w *world) explain() {
	if w.Failed() {
		w.Log(box.Describe(context.WithoutCancel(w.Context()), w.namespace, w.account))
	}
}
