// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/workers"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

const (
	before, after = "v1.35.6", "v1.36.3"
	deployment    = "workers"
)

var prod = client.ObjectKey{Namespace: "default", Name: "prod"}

// fixture is a management cluster with one Cluster whose portal cluster runs, and the portal. Managers come and go. Time is virtual.
type fixture struct {
	*testing.T
	portal      *emulator.Portal
	id          string // of the portal cluster
	nodes       *nodes
	store       client.Client
	recorder    *events.FakeRecorder
	cloud       *cloud.Client
	manager     *Reconciler
	crash       func(*infrav1.PortalControlPlane) bool // whether the manager ends instead of a write
	ended       int                                    // managers
	workloads   *connections
	connected   bool                          // the manager reads the version and the Nodes itself, as in a real pass
	limits      *infrav1.PortalIdentityLimits // of the identity
	logs        []string                      // since the test emptied them
	annotations map[string]string             // of the Cluster
}

// nodes are the Nodes of the workload cluster, as the portal makes them.
type nodes struct {
	client.Client
	mu      sync.Mutex
	version string // of the API server
	// kubeconfig is the kubeconfig that the portal returns. Nil means none.
	kubeconfig func() string
	// ids returns the providerID of a Node. Nil is the portal's own.
	ids func(emulator.Node) string
	// apart is how long after one Node the portal removes the next one.
	apart time.Duration
	// blocked is the Node with a Pod that the portal cannot evict.
	blocked string
	// shows returns the version that the API server and the kubelets report. Nil is the portal's own.
	shows func(string) string
	// made counts the Nodes. Those of one job do not join at the same moment, but at an interval of a second.
	made int
	// undrained are the Nodes that the portal removed although they took Pods.
	undrained []string
}

// Apply implements emulator.Workloads.
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
			time.Sleep(n.apart)
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

// Kubeconfig implements emulator.Workloads.
func (n *nodes) Kubeconfig(context.Context, string) ([]byte, error) {
	if n.kubeconfig == nil {
		return nil, nil
	}
	return []byte(n.kubeconfig()), nil
}

// workloads are the nodes as the portal sees them: its Delete differs from a client's.
type workloads struct{ *nodes }

// Delete implements emulator.Workloads.
func (workloads) Delete(context.Context, string) error { return nil }

// newFixture has a portal cluster of so many workers. Without versions, the portal offers the usual ones.
func newFixture(t *testing.T, size int, durations emulator.Durations, versions ...emulator.Version) *fixture {
	t.Helper()
	f := &fixture{T: t, recorder: events.NewFakeRecorder(1000), nodes: &nodes{}}
	f.nodes.Client = fake.NewClientBuilder().WithScheme(newScheme(t)).WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOfPod).Build()
	portal, err := emulator.New(emulator.Options{
		Seed: 1, Durations: durations, Workloads: workloads{f.nodes}, Versions: versions,
		Users: []emulator.User{{Email: "a@portal.example", Password: "secret", Role: emulator.RoleAdministrator}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.portal = portal
	t.Cleanup(portal.Close)
	f.cloud = newCloud(t, "https://portal.example", portal.Transport())
	f.furnish(size)
	f.restart()
	return f
}

// newCloud returns a client of the user that all portals here know.
func newCloud(t *testing.T, baseURL string, transport http.RoundTripper) *cloud.Client {
	t.Helper()
	c, err := cloud.New(cloud.Config{BaseURL: baseURL, Email: "a@portal.example", Password: "secret", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func nodeOfPod(pod client.Object) []string { return []string{pod.(*corev1.Pod).Spec.NodeName} }

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return schemes.Of(t, corev1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
}

// furnish creates the portal cluster and its objects, as they are after a creation.
func (f *fixture) furnish(size int) {
	f.Helper()
	versions, err := f.cloud.KubernetesVersions(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	i := slices.IndexFunc(versions, func(v cloud.KubernetesVersion) bool { return v.SemanticVersion == before })
	vpcs, err := f.cloud.VPCs(f.Context(), "default")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := f.cloud.CreateCluster(f.Context(), cloud.CreateClusterRequest{
		Name: "prod", Description: "d", ZoneID: "z", ServiceOfferingID: "s", Size: size, ControlNodes: 1, SSHKeyPair: "k",
		KubernetesVersionID: versions[i].ID, VPCID: vpcs[0].ID,
	}); err != nil {
		f.Fatal(err)
	}
	time.Sleep(time.Minute)
	f.id = f.portal.Clusters()[0].ID
	labels := map[string]string{clusterv1.ClusterNameLabel: prod.Name}
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name, Labels: labels}}
	cp.UID, cp.Spec.ClusterID, cp.Spec.Version = "uid-prod", f.id, before
	putRecord(cp, operation.Record{UID: cp.UID, ClusterID: f.id, Size: size, Version: before, Workers: &infrav1.WorkerParameters{}})
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: deployment, Labels: labels}}
	md.Spec.Replicas, md.Spec.Template.Spec.InfrastructureRef.Kind = ptr.To(int32(size)), workers.TemplateKind
	f.store = fake.NewClientBuilder().WithScheme(newScheme(f.T)).WithObjects(cp, md).
		WithIndex(cp, ownership.PortalClusterIndex, ownership.IndexPortalCluster).WithIndex(&infrav1.PortalCluster{}, identity.SharedIndex, identity.IndexShared).WithStatusSubresource(cp, &clusterv1.Machine{}, &clusterv1.MachinePool{}).WithInterceptorFuncs(interceptor.Funcs{Patch: f.patch}).Build()
}

// patch intercepts every write of a manager.
func (f *fixture) patch(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if cp, ok := obj.(*infrav1.PortalControlPlane); ok && f.crash != nil && f.crash(cp) {
		panic(f.crash)
	}
	return c.Patch(ctx, obj, patch, opts...)
}

// restart starts a manager with an empty memory.
func (f *fixture) restart() {
	f.workloads = &connections{connection: connection{client: f.nodes.Client}}
	f.manager = newManager(f.store, f.recorder)
	f.manager.Access.Workloads = f.workloads
}

func (f *fixture) controlPlane() *infrav1.PortalControlPlane {
	f.Helper()
	cp := &infrav1.PortalControlPlane{}
	f.must(f.store.Get(f.Context(), prod, cp))
	return cp
}

// pass is what Reconcile does with a cluster that is connected. If the manager ends in it, the next pass is another manager's.
func (f *fixture) pass() (s *scope) {
	f.Helper()
	defer func() {
		if p := recover(); p != nil {
			if f.crash == nil {
				panic(p)
			}
			f.crash = nil
			f.ended++
			f.restart()
		}
	}()
	s = f.scope()
	for _, step := range f.manager.steps() {
		switch step.condition {
		case infrav1.ProvisionedCondition, infrav1.KubeconfigReadyCondition:
			s.outcomes[step.condition] = outcome.Outcome{}
		case infrav1.ConnectedCondition:
			s.outcomes[step.condition] = f.read(s)
		default:
			s.outcomes[step.condition] = step.run(f.Context(), s)
		}
		if o := s.outcomes[step.condition]; o.Kind == outcome.Failed {
			f.Fatal(o.Err)
		}
	}
	s.updateStatus()
	return s
}

// read reads what a connection provides. With a connection of its own (f.connected), the manager does that itself.
func (f *fixture) read(s *scope) outcome.Outcome {
	f.Helper()
	if f.connected {
		return f.manager.reconcileConnection(f.Context(), s)
	}
	f.nodes.mu.Lock()
	s.serverVersion = f.nodes.version
	f.nodes.mu.Unlock()
	var err error
	if s.nodes, err = workers.ReadNodes(f.Context(), f.nodes.Client, s.ControlPlane.Spec.WorkerNodeSelector); err != nil {
		f.Fatal(err)
	}
	return outcome.Outcome{}
}

// scope returns the scope at the start of a pass.
func (f *fixture) scope() *scope {
	f.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: prod.Name, Annotations: f.annotations}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "PortalControlPlane", Name: prod.Name}
	s := &scope{Pass: pass.Pass{ControlPlane: f.controlPlane(), Cluster: cluster}, way: access.Way{Workload: &f.workloads.connection}, outcomes: map[string]outcome.Outcome{}}
	s.Identity = identity.Identity{Portal: f.cloud, Version: "1", Shared: "team", Limits: f.limits}
	s.State, s.Tools = stateOf(s.ControlPlane), f.manager.tools(s)
	var err error
	if s.members, err = workers.ReadMembers(f.Context(), f.store, cluster); err != nil {
		f.Fatal(err)
	}
	return s
}

// must ends the test if there is an error.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// change changes the object as a user does.
func (f *fixture) change(change func(*infrav1.PortalControlPlane)) {
	f.Helper()
	cp := f.controlPlane()
	change(cp)
	f.must(f.store.Update(f.Context(), cp))
}

func (f *fixture) scale(replicas int32) {
	f.Helper()
	f.editDeployment(func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = ptr.To(replicas) })
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

func (f *fixture) strike(fault emulator.Fault) {
	f.Helper()
	f.must(f.portal.Inject(fault))
}

// workers returns the Nodes without a mark of control nodes, sorted by name.
func (f *fixture) workers() []corev1.Node {
	f.Helper()
	all, err := workers.ReadNodes(f.Context(), f.nodes.Client, nil)
	if err != nil {
		f.Fatal(err)
	}
	return all.Workers
}

// allRun reports whether all workers run the version.
func (f *fixture) allRun(version string) bool {
	f.Helper()
	return !slices.ContainsFunc(f.workers(), func(n corev1.Node) bool { return n.Status.NodeInfo.KubeletVersion != version })
}

// events are those since the last call.
func (f *fixture) events() (all []string) {
	for len(f.recorder.Events) > 0 {
		all = append(all, <-f.recorder.Events)
	}
	return all
}

// put makes op the last operation of the object. The record stays.
func put(cp *infrav1.PortalControlPlane, op *operation.Operation) {
	state := stateOf(cp)
	state.Last = op
	state.Put(cp)
}

// putRecord makes the record that of the object. The last operation stays.
func putRecord(cp *infrav1.PortalControlPlane, record operation.Record) {
	state := stateOf(cp)
	state.Record = record
	state.Put(cp)
}

// stateOf is what the object stores.
func stateOf(cp *infrav1.PortalControlPlane) operation.State {
	state, err := operation.Load(cp)
	if err != nil {
		panic(err)
	}
	return state
}
