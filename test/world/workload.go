// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// workloads are the workload clusters, as the portal makes them.
type workloads struct {
	world *World
	mu    sync.Mutex
	all   map[string]*workload // by the portal's id
	// cordons are the nodes that the portal has cordoned, or made schedulable again.
	cordons map[string]bool
	// changed are called when a cluster begins or ends to answer, or runs another version.
	changed []func(id string)
}

// workload is one workload cluster: an API server, kubelets, and an application that moves from node to node.
type workload struct {
	*server
	id      string
	client  client.Client
	version string // empty: the API server does not answer
	app     app
	kubelet *chore
	taints  *chore
}

// host is how kubeconfigs name the cluster.
const domain = ".clusters.world"

// Kubeconfig implements emulator.Workloads.
func (w *workloads) Kubeconfig(_ context.Context, id string) ([]byte, error) {
	return []byte(kubeconfigs.For("server: https://"+id+domain+":6443", "token: of-"+id)), nil
}

// of returns the cluster that the kubeconfig names, or nil.
func (w *workloads) of(kubeconfig []byte) *workload {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil
	}
	return w.get(strings.TrimSuffix(server.Hostname(), domain))
}

func (w *workloads) get(id string) *workload {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[id]
}

// ids of all clusters, sorted.
func (w *workloads) ids() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.all))
}

// answers reports whether the API server does.
func (w *workloads) answers(one *workload) bool { return w.versionOf(one) != "" }

func (w *workloads) versionOf(one *workload) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one == nil {
		return ""
	}
	return one.version
}

// listen calls do for each change until the process is dead.
func (w *workloads) listen(p *process, do func(id string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = append(w.changed, func(id string) {
		if !p.fence.dead.Load() {
			do(id)
		}
	})
}

func (w *workloads) set(one *workload, version string) {
	w.mu.Lock()
	changed := one.version != version
	one.version = version
	listeners := slices.Clone(w.changed)
	w.mu.Unlock()
	if changed {
		w.world.note("workload cluster %s runs %q", one.id, version)
		for _, tell := range listeners {
			tell(one.id)
		}
	}
}

// Apply implements emulator.Workloads.
func (w *workloads) Apply(ctx context.Context, want emulator.Workload) (removed []emulator.Removal, err error) {
	one := w.get(want.ID)
	if one == nil {
		if one, err = w.open(want.ID); err != nil {
			return nil, err
		}
	}
	nodes := &corev1.NodeList{}
	if err := one.client.List(ctx, nodes); err != nil {
		return nil, err
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if slices.ContainsFunc(want.Nodes, func(m emulator.Node) bool { return m.ID == machineOf(node) }) {
			continue
		}
		removal, err := one.remove(ctx, node)
		if err != nil {
			return removed, err
		}
		w.world.note("the portal removes node %s", node.Name)
		removed = append(removed, removal)
	}
	for _, m := range want.Nodes {
		joined, err := one.join(ctx, m, want.ControlMarks)
		if err != nil {
			return removed, err
		}
		if joined {
			w.world.note("node %s joins", m.Name)
			if !w.world.Ties { // creation timestamps have a resolution of a second
				time.Sleep(time.Second + time.Duration(w.world.dice.Int64N(int64(3*time.Second))))
			}
		}
	}
	w.set(one, want.Version)
	return removed, nil
}

// open starts a workload cluster.
func (w *workloads) open(id string) (*workload, error) {
	one := &workload{id: id, app: w.world.App}
	one.kubelet = &chore{name: "kubelets of " + id, after: w.world.upTo(3 * time.Second), do: func() { one.runPods(w.world) }}
	one.server = newServer(w.world.handler, id, func(change) { w.world.ask(one.kubelet) })
	one.evict = one.evictPod(w.world)
	one.client = w.world.clientOf(one.server)
	one.taints = &chore{name: "taint manager of " + id, after: func() time.Duration { return tolerated }, do: func() { one.evictLost(w.world) }}
	w.world.addChore(one.kubelet)
	w.world.addChore(one.taints)
	if err := one.client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: one.app.namespace()}}); err != nil {
		return nil, err
	}
	if err := one.createBudget(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[id] = one
	return one, nil
}

// Delete implements emulator.Workloads.
func (w *workloads) Delete(_ context.Context, id string) error {
	if one := w.get(id); one != nil {
		w.set(one, "")
		w.mu.Lock()
		delete(w.all, id)
		w.mu.Unlock()
		w.world.removeChore(one.kubelet)
		w.world.removeChore(one.taints)
	}
	return nil
}

const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

func machineOf(node *corev1.Node) string { return node.Status.NodeInfo.MachineID }

// join brings the Node to the machine's state, and reports whether it is new.
func (one *workload) join(ctx context.Context, m emulator.Node, marks emulator.ControlMarks) (bool, error) {
	node := &corev1.Node{}
	err := one.client.Get(ctx, client.ObjectKey{Name: m.Name}, node)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	isNew := err != nil
	if isNew {
		if m.Gone {
			return false, nil
		}
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{}}, Spec: corev1.NodeSpec{ProviderID: m.ProviderID}}
		if m.ControlPlane && marks != emulator.MarkedTaint && marks != emulator.MarkedNone {
			node.Labels[controlPlaneLabel] = ""
		}
		if m.ControlPlane && marks != emulator.MarkedLabel && marks != emulator.MarkedNone {
			node.Spec.Taints = []corev1.Taint{{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}}
		}
		if err := one.client.Create(ctx, node); err != nil {
			return false, err
		}
	}
	ready := corev1.ConditionTrue
	if m.Gone || m.Stopped {
		ready = corev1.ConditionUnknown
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: m.Version, MachineID: m.ID, SystemUUID: m.ID}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")}
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		setCondition(node, pressure, corev1.ConditionFalse)
	}
	setCondition(node, corev1.NodeReady, ready)
	return isNew, one.client.Status().Update(ctx, node)
}

// setCondition sets a condition of a Node, with the time at which it changed.
func setCondition(node *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	all := node.Status.Conditions
	i := slices.IndexFunc(all, func(c corev1.NodeCondition) bool { return c.Type == kind })
	if i >= 0 && all[i].Status == status {
		return
	}
	c := corev1.NodeCondition{Type: kind, Status: status, Reason: "World", LastTransitionTime: metav1.Now()}
	if i >= 0 {
		all[i] = c
		return
	}
	node.Status.Conditions = append(all, c)
}

// Stop implements emulator.Stopper.
func (w *workloads) Stop(_ context.Context, id, node string, stopped bool) error {
	status := corev1.ConditionTrue
	if stopped {
		status = corev1.ConditionUnknown
	}
	return w.mark(id, node, corev1.NodeReady, status)
}

// mark sets a condition of a Node, if there is one of that name.
func (w *workloads) mark(id, node string, kind corev1.NodeConditionType, status corev1.ConditionStatus) error {
	one, n := w.get(id), &corev1.Node{}
	if one == nil {
		return nil
	}
	w.world.note("node %s: %s is %s", node, kind, status)
	if err := one.client.Get(context.Background(), client.ObjectKey{Name: node}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := n.DeepCopy()
	setCondition(n, kind, status)
	w.world.ask(one.taints)
	return one.client.Status().Patch(context.Background(), n, client.MergeFrom(before))
}

// remove ends the machine of a Node, with the Pods on it.
func (one *workload) remove(ctx context.Context, node *corev1.Node) (emulator.Removal, error) {
	removal := emulator.Removal{Machine: machineOf(node), At: time.Now(), Cordoned: node.Spec.Unschedulable, Ready: true}
	pods, err := one.pods(ctx)
	if err != nil {
		return removal, err
	}
	for i := range pods {
		if pods[i].Spec.NodeName != node.Name {
			continue
		}
		removal.Pods = append(removal.Pods, fmt.Sprintf("%s/%s", pods[i].Namespace, pods[i].Name))
		if err := client.IgnoreNotFound(one.client.Delete(ctx, &pods[i])); err != nil {
			return removal, err
		}
	}
	return removal, client.IgnoreNotFound(one.client.Delete(ctx, node))
}

func (one *workload) pods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := one.client.List(ctx, list)
	return list.Items, err
}
