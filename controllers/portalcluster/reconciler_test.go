// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

const password = "portal-password-2c77"

var key = client.ObjectKey{Namespace: "default", Name: "a"}

// bench is a management cluster with one Cluster, and a portal behind TLS.
type bench struct {
	*testing.T
	portal   *emulator.Portal
	store    client.Client
	recorder *events.FakeRecorder
	r        *Reconciler
}

func newBench(t *testing.T, network *infrav1.PortalNetwork) *bench {
	t.Helper()
	portal, err := emulator.New(emulator.Options{Seed: 1, Users: []emulator.User{{Email: "a@portal.example", Password: password}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	if err := portal.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, portal: portal, recorder: events.NewFakeRecorder(100)}
	b.store = fake.NewClientBuilder().WithScheme(newScheme(t)).WithStatusSubresource(&infrav1.PortalCluster{}).
		WithIndex(&infrav1.PortalCluster{}, clusterIndex, indexCluster).WithObjects(b.objects(network)...).Build()
	b.r = &Reconciler{
		Client: b.store, Live: b.store, Recorder: b.recorder, Answers: outcome.NewAnswers(), Calls: &operation.Calls{},
		Identities: &identity.Resolver{Client: b.store, Live: b.store, Secrets: secretcache.New(nil, b.store), Pool: &cloud.Pool{}},
	}
	return b
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return schemes.Of(t, corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
}

func (b *bench) objects(network *infrav1.PortalNetwork) []client.Object {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "id"}, Data: map[string][]byte{
		infrav1.IdentityBaseURL: []byte(b.portal.URL()), infrav1.IdentityCABundle: b.portal.CAPEM(),
		infrav1.IdentityEmail: []byte("a@portal.example"), infrav1.IdentityPassword: []byte(password),
	}}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "cluster-uid"}}
	pcl := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "a", UID: "pcl-uid", Labels: map[string]string{clusterv1.ClusterNameLabel: "a"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "a", UID: "cluster-uid"}},
	}}
	pcl.Generation = 1
	pcl.Spec.IdentityRef.Name, pcl.Spec.ZoneID, pcl.Spec.Network = "id", "z", network
	pcl.Spec.VPC.Name = "default"
	return []client.Object{secret, cluster, pcl}
}

// reconcile passes over the object as often as events would.
func (b *bench) reconcile(passes int) {
	b.Helper()
	for range passes {
		if _, err := b.r.Reconcile(b.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) get() *infrav1.PortalCluster {
	b.Helper()
	c := &infrav1.PortalCluster{}
	b.must(b.store.Get(b.Context(), key, c))
	return c
}

// must ends the test if there is an error.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// change changes the object as a user does, and returns it.
func (b *bench) change(change func(*infrav1.PortalCluster)) *infrav1.PortalCluster {
	b.Helper()
	c := b.get()
	change(c)
	b.must(b.store.Update(b.Context(), c))
	return c
}

func (b *bench) secret() *corev1.Secret {
	b.Helper()
	s := &corev1.Secret{}
	b.must(b.store.Get(b.Context(), client.ObjectKey{Namespace: "default", Name: "id"}, s))
	return s
}

// calls counts the requests to an endpoint.
func (b *bench) calls(method, route string) (n int) {
	for _, e := range b.portal.RequestLog() {
		if e.Method == method && e.Route == route {
			n++
		}
	}
	return n
}

// says fails unless the condition is as given.
func (b *bench) says(condition string, status metav1.ConditionStatus, reason, words string) {
	b.Helper()
	c := conditions.Get(b.get(), condition)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, words) {
		b.Errorf("%s is %+v, want %s %s: … %s …", condition, c, status, reason, words)
	}
	if c != nil && strings.Contains(c.Message, password) {
		b.Errorf("the password is in %q", c.Message)
	}
}

func (b *bench) events() (all string) {
	for len(b.recorder.Events) > 0 {
		all += <-b.recorder.Events + "\n"
	}
	return all
}

// TestReady has the network created from a CIDR, once. An object that a user replaces by its manifest, without annotations and finalizers, keeps it.
func TestReady(t *testing.T) {
	b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
	for range 2 {
		b.reconcile(5)
		b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
		b.says(infrav1.IdentityReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
		b.says(infrav1.NetworkReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "was created from 10.1.0.0/24")
		c, id := b.get(), b.portal.Networks()[0].ID
		if c.Status.NetworkID != id || c.Annotations[infrav1.NetworkAnnotation] != id || c.Status.VPCID == "" ||
			!ptr.Deref(c.Status.Initialization.Provisioned, false) {
			t.Errorf("network %s: %+v", id, c)
		}
		if v, l, n := b.calls("GET", "/vpcs"), b.calls("POST", "/login"), b.calls("POST", "/networks"); v != 1 || l != 1 || n != 1 {
			t.Errorf("%d lookups, %d logins, %d networks", v, l, n)
		}
		b.change(func(c *infrav1.PortalCluster) { c.Annotations, c.Finalizers = nil, nil })
	}
}

// TestLostNetwork: a network that may exist is never requested again. The user can set its id.
func TestLostNetwork(t *testing.T) {
	b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
	b.must(b.portal.Inject(emulator.Fault{Method: "POST", Path: "/networks", Cut: true, After: true, Count: 1}))
	b.reconcile(10)
	b.says(infrav1.NetworkReadyCondition, metav1.ConditionFalse, infrav1.OutcomeUnknownReason, "set spec.network.id to its id, and remove spec.network.cidr")
	if n := b.calls("POST", "/networks"); n != 1 {
		t.Fatalf("%d requests for one network", n)
	}
	b.change(func(c *infrav1.PortalCluster) { c.Spec.Network = &infrav1.PortalNetwork{ID: b.portal.Networks()[0].ID} })
	b.reconcile(3)
	b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
	if id := b.get().Status.NetworkID; id != b.portal.Networks()[0].ID {
		t.Errorf("the network is %q", id)
	}
	if state, err := operation.Load(b.get()); err != nil || state.Op() != nil {
		t.Errorf("the operation that a person has settled is still in flight: %+v, %v", state.Op(), err)
	}
}

// TestExternallyManaged has another system manage the infrastructure (Cluster API's contract). The object is not changed in any way, also not
// while it is being deleted, and the portal is not asked.
func TestExternallyManaged(t *testing.T) {
	b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
	c := b.change(func(c *infrav1.PortalCluster) {
		c.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "terraform"}
		c.Finalizers = []string{"terraform.example/portal"}
	})
	for range 2 {
		before := b.get()
		b.reconcile(3)
		if diff := cmp.Diff(before, b.get()); diff != "" {
			t.Error(diff)
		}
		b.must(b.store.Delete(t.Context(), c))
	}
	if asked := slices.DeleteFunc(b.portal.RequestLog(), func(e emulator.LogEntry) bool { return !e.IsRequest() }); len(asked) > 0 {
		t.Errorf("the portal was asked: %v", asked)
	}
}

// TestNothingIsClaimedBeforeItIsReached has a conflict on the very first write, as happens when core writes at that moment. A
// pass that changed nothing must not report the object as provisioned, because that is never reset.
func TestNothingIsClaimedBeforeItIsReached(t *testing.T) {
	b := newBench(t, nil)
	conflicts := 1 // yet to come
	b.r.Client = interceptor.NewClient(b.watching(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if conflicts--; conflicts >= 0 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "portalclusters"}, obj.GetName(), nil)
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	_, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if c := b.get(); conflicts > 0 || ptr.Deref(c.Status.Initialization.Provisioned, false) || conditions.IsTrue(c, infrav1.ReadyCondition) {
		t.Errorf("%d conflicts left, error %v, status %+v", conflicts, err, c.Status)
	}
	b.reconcile(5)
	b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
}

func (b *bench) watching() client.WithWatch {
	b.Helper()
	w, ok := b.store.(client.WithWatch)
	if !ok {
		b.Fatal("the store cannot be watched")
	}
	return w
}

// TestProvisionedWithKubeconfig has the PortalCluster be ready at once, so that its control plane can be created, and provisioned only when
// that has a kubeconfig: core connects to the workload cluster then.
func TestProvisionedWithKubeconfig(t *testing.T) {
	b := newBench(t, nil)
	cp := b.withControlPlane()
	provisioned := func() bool { return ptr.Deref(b.get().Status.Initialization.Provisioned, false) }
	for range 2 { // the control plane has no kubeconfig, or does not exist
		b.reconcile(5)
		b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
		b.says(infrav1.NetworkReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "isolated network")
		if b.get().Status.VPCID == "" || provisioned() {
			t.Errorf("before there is a kubeconfig: %+v", b.get().Status)
		}
		b.must(client.IgnoreNotFound(b.store.Delete(t.Context(), cp)))
	}
	cp.ResourceVersion = ""
	conditions.Set(cp, metav1.Condition{Type: infrav1.KubeconfigReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyReason})
	b.must(b.store.Create(t.Context(), cp))
	b.reconcile(1)
	if !provisioned() {
		t.Errorf("with a kubeconfig: %+v", b.get().Status)
	}
	cp.Labels = map[string]string{clusterv1.ClusterNameLabel: "a"}
	if woken := b.r.fromControlPlane(t.Context(), cp); len(woken) != 1 || woken[0].NamespacedName != key {
		t.Errorf("the control plane wakes %v", woken)
	}
}
