// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

const (
	before, after   = "v1.35.6", "v1.36.3"
	clusterCRD      = "clusters.cluster.x-k8s.io"
	controlPlaneCRD = "portalcontrolplanes.infrastructure.cluster.x-k8s.io"
)

// estate is a management cluster with PortalControlPlanes, and their portal. Time is virtual.
type estate struct {
	*testing.T
	portal      *emulator.Portal
	store       client.WithWatch
	recorder    *events.FakeRecorder
	manager     *Reconciler
	identity    identity.Identity // of all objects
	annotations map[string]string // of the Clusters
	logs        []string          // since the test emptied them
}

// Context has a logger that keeps the lines.
func (e *estate) Context() context.Context {
	return ctrl.LoggerInto(e.T.Context(), funcr.New(func(_, args string) { e.logs = append(e.logs, args) }, funcr.Options{}))
}

// must ends the test if there is an error.
func (e *estate) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// cases runs each row of a table in a bubble of its own.
func cases[T any](t *testing.T, table map[string]T, run func(t *testing.T, test T)) {
	t.Helper()
	for title, test := range table {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, test) })
		})
	}
}

// live runs the test in a bubble of its own, with a portal cluster of so many workers.
func live(t *testing.T, size int, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newFixture(t, size, emulator.Durations{})) })
}

// manage runs the test in a bubble of its own, with an estate.
func manage(t *testing.T, lists bool, test func(e *estate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newEstate(t, emulator.Options{ListClusters: lists})) })
}

// newEstate returns an estate without PortalControlPlanes.
func newEstate(t *testing.T, options emulator.Options) *estate {
	t.Helper()
	options.Seed, options.Users = 1, []emulator.User{{Email: "a@portal.example", Password: "secret", Role: emulator.RoleAdministrator}}
	portal, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	e := &estate{T: t, portal: portal, recorder: events.NewFakeRecorder(1000)}
	e.identity = identity.Identity{Portal: e.at("https://portal.example"), Version: "1"}
	cp := &infrav1.PortalControlPlane{}
	objects := []client.Object{&infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: "team"}}}
	for _, name := range []string{clusterCRD, controlPlaneCRD} {
		objects = append(objects, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"a/b"}}})
	}
	e.store = fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(objects...).
		WithIndex(cp, ownership.PortalClusterIndex, ownership.IndexPortalCluster).WithIndex(&infrav1.PortalCluster{}, identity.SharedIndex, identity.IndexShared).
		WithStatusSubresource(cp, &infrav1.PortalClusterIdentity{}, &clusterv1.Machine{}, &clusterv1.MachinePool{}).Build()
	e.manager = newManager(e.store, e.recorder, &connections{connection: connection{access: workload.Unusable}})
	return e
}

// at returns a client of the portal under the URL.
func (e *estate) at(baseURL string) *cloud.Client {
	e.Helper()
	c, err := cloud.New(cloud.Config{BaseURL: baseURL, Email: "a@portal.example", Password: "secret", Transport: e.portal.Transport()})
	e.must(err)
	return c
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return schemes.Of(t, corev1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
}

// newManager returns a manager of the objects in the store, with an empty memory.
func newManager(store client.Client, recorder events.EventRecorder, workloads *connections) *Reconciler {
	secrets := secretcache.New(store, store)
	owners := &ownership.Owners{Client: store, Live: store}
	return &Reconciler{
		Client: store, Live: store, Recorder: recorder, Identities: &identity.Resolver{Client: store, Live: store, Pool: &cloud.Pool{}, Secrets: secrets}, Ownership: owners, Calls: &operation.Calls{},
		Access:    &access.Kubeconfigs{Client: store, Secrets: secrets, Workloads: workloads},
		Lifecycle: &lifecycle.Clusters{Ownership: owners, Answers: outcome.NewAnswers()},
	}
}

// add creates a PortalControlPlane as a user applies it, with a UID of its own.
func (e *estate) add(namespace, name string, change func(*infrav1.PortalControlPlane)) client.ObjectKey {
	e.Helper()
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + "-" + name), CreationTimestamp: metav1.Now(),
	}}
	cp.Spec.Version, cp.Spec.Replicas, cp.Spec.Description = before, ptr.To[int32](1), "d"
	cp.Spec.Workers = &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	if change != nil {
		change(cp)
	}
	e.must(e.store.Create(e.Context(), cp))
	time.Sleep(time.Minute)
	return client.ObjectKeyFromObject(cp)
}

// addWorkers gives the Cluster of the object a MachineDeployment and its template.
func (e *estate) addWorkers(key client.ObjectKey, replicas int32, created metav1.Time) {
	e.Helper()
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: "w", CreationTimestamp: created, Labels: map[string]string{clusterv1.ClusterNameLabel: key.Name}}
	md := &clusterv1.MachineDeployment{ObjectMeta: meta}
	md.Spec.Replicas = &replicas
	md.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: workers.TemplateKind, Name: meta.Name}
	template := &infrav1.PortalMachineTemplate{ObjectMeta: meta}
	template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	for _, o := range []client.Object{md, template} {
		e.must(e.store.Create(e.Context(), o))
	}
}

// order makes a person create a portal cluster on the portal's pages. It returns the job.
func (e *estate) order(name string, size int) cloud.Job {
	e.Helper()
	versions, err := e.identity.Portal.KubernetesVersions(e.Context())
	e.must(err)
	i := slices.IndexFunc(versions, func(v cloud.KubernetesVersion) bool { return v.SemanticVersion == before })
	job, err := e.identity.Portal.CreateCluster(e.Context(), cloud.CreateClusterRequest{
		Name: name, Description: "d", ZoneID: "z", ServiceOfferingID: "s", Size: size, ControlNodes: 1, SSHKeyPair: "k",
		KubernetesVersionID: versions[i].ID, VPCID: e.portal.VPCs()[0].ID,
	})
	e.must(err)
	return job
}

// another makes a person create a portal cluster, and returns its id when it runs.
func (e *estate) another() string {
	e.Helper()
	e.order("another", 3)
	time.Sleep(time.Minute)
	clusters := e.portal.Clusters()
	return clusters[len(clusters)-1].ID
}

// copyOf gives an object the spec and annotations of the other object, like a copy.
func copyOf(other *infrav1.PortalControlPlane) func(*infrav1.PortalControlPlane) {
	return func(cp *infrav1.PortalControlPlane) {
		cp.Spec, cp.Annotations, cp.Finalizers = *other.Spec.DeepCopy(), other.DeepCopy().Annotations, slices.Clone(other.Finalizers)
	}
}

func (e *estate) get(key client.ObjectKey) *infrav1.PortalControlPlane {
	e.Helper()
	cp := &infrav1.PortalControlPlane{}
	e.must(e.store.Get(e.Context(), key, cp))
	return cp
}

func (e *estate) change(key client.ObjectKey, change func(*infrav1.PortalControlPlane)) {
	e.Helper()
	cp := e.get(key)
	change(cp)
	e.must(e.store.Update(e.Context(), cp))
}

// decide annotates the object with a person's decision, as a condition asks for.
func (e *estate) decide(key client.ObjectKey, decision string) {
	e.Helper()
	e.change(key, func(cp *infrav1.PortalControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, decision)
	})
}

// scope is what a pass over the object reads.
func (e *estate) scope(key client.ObjectKey) *scope {
	e.Helper()
	s := &scope{Pass: pass.Pass{ControlPlane: e.get(key), Identity: e.identity}, outcomes: map[string]outcome.Outcome{}}
	s.Cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: e.annotations}}
	s.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "PortalControlPlane", Name: key.Name}
	s.PortalCluster = &infrav1.PortalCluster{Spec: infrav1.PortalClusterSpec{ZoneID: "z"}}
	s.PortalCluster.Status.VPCID = e.portal.VPCs()[0].ID
	s.State, s.Tools = stateOf(s.ControlPlane), e.manager.tools(s)
	var err error
	s.members, err = workers.ReadMembers(e.Context(), e.manager.Client, s.Cluster)
	e.must(err)
	return s
}

// create takes the object one pass further.
func (e *estate) create(key client.ObjectKey) outcome.Outcome {
	e.Helper()
	s := e.scope(key)
	if !controllerutil.ContainsFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) {
		e.must(e.manager.Ownership.Begin(e.Context(), &s.Pass))
	}
	return e.manager.reconcileCluster(e.Context(), s)
}

// passes reconciles the portal clusters of the objects in turn until nothing happens any more.
func (e *estate) passes(keys ...client.ObjectKey) map[client.ObjectKey]outcome.Outcome {
	e.Helper()
	last := map[client.ObjectKey]outcome.Outcome{}
	for range 10 {
		for _, key := range keys {
			if last[key] = e.create(key); last[key].Kind == outcome.Failed {
				e.Fatal(last[key].Err)
			}
		}
		time.Sleep(10 * time.Second)
	}
	return last
}

// delete deletes the object, and waits until it is gone or a minute has passed.
func (e *estate) delete(key client.ObjectKey) (o outcome.Outcome) {
	e.Helper()
	e.change(key, func(cp *infrav1.PortalControlPlane) { controllerutil.AddFinalizer(cp, infrav1.ControlPlaneFinalizer) })
	e.must(e.store.Delete(e.Context(), e.get(key)))
	for range 6 {
		s := e.scope(key)
		if o = e.manager.deletePortalCluster(e.Context(), s); o.IsDone() {
			e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Finalizers = nil })
			return o
		}
		time.Sleep(10 * time.Second)
	}
	return o
}

// strike arms faults of the portal.
func (e *estate) strike(faults ...emulator.Fault) {
	e.Helper()
	for _, fault := range faults {
		e.must(e.portal.Inject(fault))
	}
}

// asked counts the requests of the method, logins aside.
func (e *estate) asked(method string) (n int) {
	for _, entry := range e.portal.RequestLog() {
		if entry.IsRequest() && entry.Method == method && entry.Route != "/login" {
			n++
		}
	}
	return n
}

func (e *estate) record(key client.ObjectKey) operation.Record {
	e.Helper()
	return stateOf(e.get(key)).Record
}

// events are those since the last call.
func (e *estate) events() (all []string) {
	for len(e.recorder.Events) > 0 {
		all = append(all, <-e.recorder.Events)
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
