// SPDX-License-Identifier: Apache-2.0

package portalclusteridentity

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

const (
	home     = "capportal-system"
	password = "portal-password-61fa"
)

var key = client.ObjectKey{Name: "team"}

// bench is a management cluster with one PortalClusterIdentity, and no portal.
type bench struct {
	*testing.T
	store    client.Client
	recorder *events.FakeRecorder
	r        *Reconciler
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := schemes.Of(t, corev1.AddToScheme, infrav1.AddToScheme)
	shared := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Generation: 3}}
	shared.Spec.SecretRef.Name = "account"
	shared.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{List: []string{"default"}}
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, shared)...).WithStatusSubresource(shared).
		WithIndex(&infrav1.PortalCluster{}, identity.SharedIndex, identity.IndexShared).Build()
	recorder := events.NewFakeRecorder(100)
	return &bench{T: t, store: store, recorder: recorder, r: &Reconciler{
		Client: store, Recorder: recorder,
		Identities: &identity.Resolver{Client: store, Live: store, Secrets: secretcache.New(nil, store), Namespace: home, Pool: &cloud.Pool{}},
	}}
}

func secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "account"}, Data: map[string][]byte{
		infrav1.IdentityBaseURL:  []byte("https://portal.example"),
		infrav1.IdentityEmail:    []byte("a@portal.example"),
		infrav1.IdentityPassword: []byte(password),
	}}
}

func user() *infrav1.PortalCluster {
	c := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	c.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: infrav1.PortalIdentityShared, Name: key.Name}
	return c
}

func (b *bench) reconcile() {
	b.Helper()
	if _, err := b.r.Reconcile(b.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) get() *infrav1.PortalClusterIdentity {
	b.Helper()
	shared := &infrav1.PortalClusterIdentity{}
	if err := b.store.Get(b.Context(), key, shared); err != nil {
		b.Fatal(err)
	}
	return shared
}

// says fails unless the condition is as given.
func (b *bench) says(condition string, status metav1.ConditionStatus, reason, words string) {
	b.Helper()
	c := conditions.Get(b.get(), condition)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, words) || c.ObservedGeneration != b.get().Generation {
		b.Errorf("%s is %+v, want %s %s: … %s …", condition, c, status, reason, words)
	}
	if c != nil && strings.Contains(c.Message, password) {
		b.Errorf("the password is in %q", c.Message)
	}
}

// TestReady reports what the Secret lacks, and when it is complete. The administrator gets one Warning, however many passes find the same.
func TestReady(t *testing.T) {
	b := newBench(t)
	b.reconcile()
	b.reconcile()
	warning := "Warning " + infrav1.IdentityInvalidReason + ` Secret "account" does not exist`
	if n := len(b.recorder.Events); n != 1 {
		t.Fatalf("%d events, want one", n)
	}
	if event := <-b.recorder.Events; !strings.HasPrefix(event, warning) {
		t.Error(event)
	}
	b.says(infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.IdentityInvalidReason, `Secret "account" does not exist`)
	incomplete := secret()
	incomplete.Data[infrav1.IdentityBaseURL] = []byte("http://portal.example")
	if err := b.store.Create(t.Context(), incomplete); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.says(infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.IdentityInvalidReason, "https")
	incomplete.Data = secret().Data
	if err := b.store.Update(t.Context(), incomplete); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.says(infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason, "")
	if got := b.get().Status.ObservedGeneration; got != 3 {
		t.Errorf("observed generation %d", got)
	}
	version := b.get().ResourceVersion
	b.reconcile()
	if b.get().ResourceVersion != version {
		t.Error("a pass that finds nothing new writes")
	}
}

// TestDeletionWaitsForUsers: an identity that is deleted stays, and reports for whom, until the last PortalCluster is gone.
func TestDeletionWaitsForUsers(t *testing.T) {
	b := newBench(t, secret(), user())
	if o := b.r.Identities.EnsureFinalizer(t.Context(), user()); !o.IsDone() {
		t.Fatalf("%+v", o)
	}
	b.reconcile()
	b.says(clusterv1.DeletingCondition, metav1.ConditionFalse, clusterv1.NotDeletingReason, "")
	if err := b.store.Delete(t.Context(), b.get()); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.says(clusterv1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForDependencyReason, "Waiting for 1 PortalCluster.")
	if err := b.store.Delete(t.Context(), user()); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	if err := b.store.Get(t.Context(), key, &infrav1.PortalClusterIdentity{}); !apierrors.IsNotFound(err) {
		t.Errorf("the identity is still there: %v", err)
	}
	held := secret()
	if err := b.store.Get(t.Context(), client.ObjectKeyFromObject(held), held); err != nil || len(held.Finalizers) > 0 {
		t.Errorf("%v %v", held.Finalizers, err)
	}
}

// TestUnseenUsers: a PortalCluster that the cache does not show, because another manager watches its namespace, counts too.
func TestUnseenUsers(t *testing.T) {
	b := newBench(t, secret(), user())
	if o := b.r.Identities.EnsureFinalizer(t.Context(), user()); !o.IsDone() {
		t.Fatalf("%+v", o)
	}
	b.r.Identities.Client = &blind{b.store}
	b.reconcile()
	if len(b.get().Finalizers) == 0 {
		t.Error("released while another manager's PortalCluster uses it")
	}
}

// blind is a cache that shows no PortalClusters.
type blind struct{ client.Client }

// List implements client.Reader.
func (b *blind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*infrav1.PortalClusterList); ok {
		return nil
	}
	return b.Client.List(ctx, list, opts...)
}

// TestWakes: a PortalCluster wakes its identity, and a Secret of the manager's namespace those that it belongs to.
func TestWakes(t *testing.T) {
	b := newBench(t)
	elsewhere, own := secret(), user()
	elsewhere.Namespace, own.Spec.IdentityRef.Kind = "default", infrav1.PortalIdentitySecret
	tests := map[string]struct {
		got  int
		want int
	}{
		"a user":              {len(fromPortalCluster(t.Context(), user())), 1},
		"a user of a Secret":  {len(fromPortalCluster(t.Context(), own)), 0},
		"the Secret":          {len(b.r.fromSecret(t.Context(), secret())), 1},
		"a Secret of tenants": {len(b.r.fromSecret(t.Context(), elsewhere)), 0},
	}
	for title, test := range tests {
		if test.got != test.want {
			t.Errorf("%s wakes %d", title, test.got)
		}
	}
}
