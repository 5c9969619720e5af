// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

const (
	deployment = "workers"
	// The routes of faults.
	routeClusters = "/kubernetes-clusters"
	routeCluster  = routeClusters + "/*"
	routeScale    = routeCluster + "/scale"
	routeUpgrade  = routeCluster + "/upgrade"
	routeConfig   = routeCluster + "/config"
)

var prod = client.ObjectKey{Namespace: "default", Name: "prod"}

// fixture is an estate with one Cluster whose portal cluster runs. Managers come and go.
type fixture struct {
	*estate
	id        string // of the portal cluster
	nodes     *nodes
	workloads *connections // of the manager
}

// nodes are the Nodes of the workload cluster, as the portal makes them.
type nodes struct {
	client.WithWatch
	mu         sync.Mutex
	version    string                     // of the API server
	kubeconfig func() string              // that the portal returns. Nil means none
	ids        func(emulator.Node) string // the providerID of a Node. Nil is the portal's own
	blocked    string                     // the Node with a Pod that the portal cannot evict
	shows      func(string) string        // the version that the API server and the kubelets report. Nil is the portal's own
	made       int                        // Nodes. Those of one job join at an interval of a second
	undrained  []string                   // Nodes that the portal removed although they took Pods
}

func (n *nodes) Apply(ctx context.Context, w emulator.Workload) ([]emulator.Removal, error) {
	if n.shows != nil {
		w.Version = n.shows(w.Version)
		for i := range w.Nodes {
			w.Nodes[i].Version = n.shows(w.Nodes[i].Version)
		}
	}
	n.mu.Lock()
	n.version = w.Version
	n.mu.Unlock()
	have := &corev1.NodeList{}
	if err := n.List(ctx, have); err != nil {
		return nil, err
	}
	for i := range have.Items {
		stays := slices.ContainsFunc(w.Nodes, func(m emulator.Node) bool { return types.UID(m.ID) == have.Items[i].UID })
		if !stays {
			if !have.Items[i].Spec.Unschedulable {
				n.undrained = append(n.undrained, have.Items[i].Name)
			}
			if err := n.Delete(ctx, &have.Items[i]); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range w.Nodes {
		if err := n.join(ctx, m); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (n *nodes) join(ctx context.Context, m emulator.Node) error {
	node := &corev1.Node{}
	err := n.Get(ctx, client.ObjectKey{Name: m.Name}, node)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	missing := err != nil
	node.Name, node.UID, node.Spec.ProviderID = m.Name, types.UID(m.ID), "portal:///z/"+m.ID
	if n.ids != nil {
		node.Spec.ProviderID = n.ids(m)
	}
	if m.ControlPlane {
		node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	}
	if missing {
		n.made++
		node.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(n.made) * time.Second))
		node.Annotations = map[string]string{infrav1.BatchAnnotation: m.Name}
		if err := n.Create(ctx, node); err != nil {
			return err
		}
	}
	node.Status.NodeInfo.KubeletVersion = m.Version
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n.Status().Update(ctx, node)
}

func (n *nodes) Kubeconfig(context.Context, string) ([]byte, error) {
	if n.kubeconfig == nil {
		return nil, nil
	}
	return []byte(n.kubeconfig()), nil
}

// answer is the version of the API server.
func (n *nodes) answer(string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version
}

// workloads are the nodes as the portal sees them, as emulator.Workloads and Drainer. Its Delete differs from a client's.
type workloads struct{ *nodes }

func (workloads) Delete(context.Context, string) error { return nil }

func (w workloads) Drain(ctx context.Context, id, node string, _ time.Duration) error {
	err := w.Cordon(ctx, id, node, true)
	if err == nil && node == w.blocked {
		err = errors.New("a Pod is left")
	}
	return err
}

func (w workloads) Cordon(ctx context.Context, _, node string, unschedulable bool) error {
	n := &corev1.Node{}
	if err := w.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return err
	}
	n.Spec.Unschedulable = unschedulable
	return w.Update(ctx, n)
}

// newFixture has a portal cluster of so many workers. Without versions, the portal offers the usual ones.
func newFixture(t *testing.T, size int, durations emulator.Durations, versions ...emulator.Version) *fixture {
	t.Helper()
	f := &fixture{nodes: &nodes{}}
	f.nodes.WithWatch = fake.NewClientBuilder().WithScheme(newScheme(t)).WithIndex(&corev1.Pod{}, "spec.nodeName", func(pod client.Object) []string {
		return []string{pod.(*corev1.Pod).Spec.NodeName}
	}).Build()
	f.estate = newEstate(t, emulator.Options{Durations: durations, Workloads: workloads{f.nodes}, Versions: versions})
	f.order(prod.Name, size)
	time.Sleep(time.Minute)
	f.id = f.portal.Clusters()[0].ID
	labels := map[string]string{clusterv1.ClusterNameLabel: prod.Name}
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name, Labels: labels}}
	cp.UID, cp.Spec.ClusterID, cp.Spec.Version = "uid-prod", f.id, before
	putRecord(cp, operation.Record{UID: cp.UID, ClusterID: f.id, Size: size, Version: before, Workers: &infrav1.WorkerParameters{}})
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: deployment, Labels: labels}}
	md.Spec.Replicas, md.Spec.Template.Spec.InfrastructureRef.Kind = ptr.To(int32(size)), workers.TemplateKind
	f.must(f.store.Create(t.Context(), cp))
	f.must(f.store.Create(t.Context(), md))
	f.restart()
	return f
}

// restart starts a manager with an empty memory.
func (f *fixture) restart() {
	f.workloads = &connections{connection: connection{client: f.nodes.WithWatch, version: f.nodes.answer}}
	f.manager = newManager(f.store, f.recorder, f.workloads)
}

func (f *fixture) controlPlane() *infrav1.PortalControlPlane {
	f.Helper()
	return f.get(prod)
}

// scope is what a pass over the connected cluster reads.
func (f *fixture) scope() *scope {
	f.Helper()
	s := f.estate.scope(prod)
	s.way = access.Way{Connection: &f.workloads.connection}
	return s
}

// pass is what Reconcile does with a cluster whose kubeconfig is stored.
func (f *fixture) pass() *scope {
	f.Helper()
	s := f.scope()
	for _, step := range f.manager.steps() {
		o := outcome.Outcome{}
		if step.condition != infrav1.ProvisionedCondition && step.condition != infrav1.KubeconfigReadyCondition {
			o = step.run(f.Context(), s)
		}
		if s.outcomes[step.condition] = o; o.Kind == outcome.Failed {
			f.Fatal(o.Err)
		}
	}
	s.updateStatus()
	return s
}

// passes runs passes for that time, and returns the last one.
func (f *fixture) passes(span, every time.Duration) *scope {
	f.Helper()
	return f.repeat(f.pass, span, every)
}

// liveBy makes such a pass every ten seconds for that long.
func (f *fixture) liveBy(pass func() *scope, span time.Duration) *scope {
	f.Helper()
	return f.repeat(pass, span, 10*time.Second)
}

func (f *fixture) repeat(pass func() *scope, span, every time.Duration) (s *scope) {
	f.Helper()
	for began := time.Now(); time.Since(began) < span; time.Sleep(every) {
		s = pass()
	}
	return s
}

// change changes the object as a user does.
func (f *fixture) change(change func(*infrav1.PortalControlPlane)) {
	f.Helper()
	f.estate.change(prod, change)
}

// changeRecord changes what the provider has recorded.
func (f *fixture) changeRecord(change func(*operation.Record)) {
	f.Helper()
	f.change(func(cp *infrav1.PortalControlPlane) {
		record := stateOf(cp).Record
		change(&record)
		putRecord(cp, record)
	})
}

func (f *fixture) decide(decision string) {
	f.Helper()
	f.estate.decide(prod, decision)
}

// upgrade sets spec.version.
func (f *fixture) upgrade(version string) {
	f.Helper()
	f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = version })
}

// expect sets the order in which the portal is expected to remove workers.
func (f *fixture) expect(order infrav1.RemovalOrder) {
	f.Helper()
	f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = order })
}

func (f *fixture) scale(replicas int32) {
	f.Helper()
	f.editDeployment(func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = ptr.To(replicas) })
}

// editDeployment changes the MachineDeployment as core and users do, and returns it.
func (f *fixture) editDeployment(edit func(*clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
	f.Helper()
	md := &clusterv1.MachineDeployment{}
	f.must(f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: deployment}, md))
	edit(md)
	f.must(f.store.Update(f.Context(), md))
	return md
}

// machine adds a Machine and its PortalMachine.
func (f *fixture) machine(name string, change func(*clusterv1.Machine)) {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: prod.Namespace, Name: name, Labels: map[string]string{
		clusterv1.ClusterNameLabel: prod.Name, clusterv1.MachineDeploymentNameLabel: deployment,
	}}
	m := &clusterv1.Machine{ObjectMeta: meta}
	set := metav1.ObjectMeta{Name: "set", UID: "uid-set"}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = prod.Name, ptr.To("")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachine", Name: name}
	change(m)
	f.must(f.store.Create(f.Context(), m))
	f.must(f.store.Create(f.Context(), &infrav1.PortalMachine{ObjectMeta: meta}))
}

// answers are the portal's answers to requests whose path ends in the word. 0 means none.
func (f *fixture) answers(word string) (codes []string) {
	for _, e := range f.portal.RequestLog() {
		if e.Route == "/kubernetes-clusters/{cluster_id}/"+word {
			codes = append(codes, strconv.Itoa(e.Status))
		}
	}
	return codes
}

// workers returns the Nodes without a mark of control nodes, sorted by name.
func (f *fixture) workers() []corev1.Node {
	f.Helper()
	all, err := workers.ReadNodes(f.Context(), f.nodes, nil)
	f.must(err)
	return all.Workers
}

// cordoned returns the worker Nodes that accept no Pods, and how many workers there are.
func (f *fixture) cordoned() (names []string, workers int) {
	f.Helper()
	all := f.workers()
	for _, n := range all {
		if n.Spec.Unschedulable {
			names = append(names, n.Name)
		}
	}
	return names, len(all)
}

// changeNode changes a Node and its status.
func (f *fixture) changeNode(name string, change func(*corev1.Node)) {
	f.Helper()
	n := &corev1.Node{}
	f.must(f.nodes.Get(f.Context(), client.ObjectKey{Name: name}, n))
	change(n)
	changed := n.DeepCopy()
	f.must(f.nodes.Update(f.Context(), n))
	changed.ResourceVersion = n.ResourceVersion
	f.must(f.nodes.Status().Update(f.Context(), changed))
}

// cordon cordons the Node or makes it schedulable, as a person does.
func (f *fixture) cordon(name string, unschedulable bool) {
	f.Helper()
	f.changeNode(name, func(n *corev1.Node) { n.Spec.Unschedulable = unschedulable })
}

// allRun reports whether all workers run the version.
func (f *fixture) allRun(version string) bool {
	f.Helper()
	return !slices.ContainsFunc(f.workers(), func(n corev1.Node) bool { return n.Status.NodeInfo.KubeletVersion != version })
}

// says reports whether the outcome has the reason and, in its message, all of the words.
func says(o outcome.Outcome, reason string, words ...string) bool {
	return o.Reason == reason && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(o.Message, word) })
}

// stalled reports whether the outcome says so and waits for a person.
func stalled(o outcome.Outcome, reason string, words ...string) bool {
	return o.Kind == outcome.Stalled && says(o, reason, words...)
}

// reason is that of a condition as it is stored.
func (f *fixture) reason(condition string) string {
	f.Helper()
	return conditions.GetReason(f.controlPlane(), condition)
}
