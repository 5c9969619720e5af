// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

const password = "portal-password-5b1e"

// other is a finalizer of another controller. It keeps an object that is being deleted in the store.
const other = "example.com/other"

// bench is a namespace with an identity Secret.
type bench struct {
	*testing.T
	store    client.Client
	resolver *Resolver
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := schemes.Of(t, corev1.AddToScheme, infrav1.AddToScheme)
	store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&infrav1.PortalCluster{}, SharedIndex, IndexShared).
		WithIndex(&infrav1.PortalCluster{}, ownIndex, indexOwn).
		WithStatusSubresource(&infrav1.PortalClusterIdentity{}).Build()
	return &bench{T: t, store: store, resolver: &Resolver{Client: store, Live: store, Secrets: secretcache.New(store, store), Namespace: home, Pool: &cloud.Pool{}}}
}

func secret(name string, change func(map[string][]byte)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{
		infrav1.IdentityBaseURL:  []byte("https://portal.example"),
		infrav1.IdentityEmail:    []byte("a@portal.example"),
		infrav1.IdentityPassword: []byte(password),
	}}
	if change != nil {
		change(s.Data)
	}
	return s
}

// user is the PortalCluster of the Cluster of that name.
func user(name, secretName string) *infrav1.PortalCluster {
	c := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Finalizers: []string{infrav1.ClusterFinalizer},
		Labels: map[string]string{clusterv1.ClusterNameLabel: name},
	}}
	c.Spec.IdentityRef.Name = secretName
	return c
}

func controlPlane(cluster string) *infrav1.PortalControlPlane {
	return &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: cluster, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
	}}
}

func (b *bench) secret(name string) *corev1.Secret {
	b.Helper()
	s := &corev1.Secret{}
	b.must(b.store.Get(b.Context(), client.ObjectKey{Namespace: "default", Name: name}, s))
	return s
}

func (b *bench) held(name string) bool {
	b.Helper()
	return controllerutil.ContainsFinalizer(b.secret(name), infrav1.IdentityFinalizer)
}

func (b *bench) hold(users ...*infrav1.PortalCluster) {
	b.Helper()
	for _, u := range users {
		if o := b.resolver.EnsureFinalizer(b.Context(), u); !o.IsDone() {
			b.Fatalf("hold: %+v", o)
		}
	}
}

// must ends the test if there is an error.
func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// leave makes PortalClusters release the Secret. Each one sees the others as they are now.
func (b *bench) leave(users ...*infrav1.PortalCluster) {
	b.Helper()
	for _, u := range users {
		b.must(b.resolver.RemoveFinalizer(b.Context(), u))
	}
}

func (b *bench) delete(objects ...client.Object) {
	b.Helper()
	for _, obj := range objects {
		b.must(b.store.Delete(b.Context(), obj))
	}
}

// remove deletes objects, even if finalizers hold them.
func (b *bench) remove(objects ...client.Object) {
	b.Helper()
	for _, obj := range objects {
		b.must(b.store.Get(b.Context(), client.ObjectKeyFromObject(obj), obj))
		obj.SetFinalizers(nil)
		b.must(b.store.Update(b.Context(), obj))
		b.delete(obj)
	}
}

func TestHold(t *testing.T) {
	b := newBench(t, secret("id", nil))
	a := user("a", "id")
	b.hold(a)
	if _, moves := b.secret("id").Labels[clusterctlv1.ClusterctlMoveLabel]; !b.held("id") || !moves {
		t.Errorf("not held, or not moved along: %+v", b.secret("id").ObjectMeta)
	}
	if string(b.secret("id").Data[infrav1.IdentityPassword]) != password {
		t.Error("the Secret's data changed")
	}
	version := b.secret("id").ResourceVersion
	b.hold(a)
	if b.secret("id").ResourceVersion != version {
		t.Error("a Secret that is held already is written again: its version counts as another identity")
	}
}

// TestHoldWhileItIsDeleted: an identity that is held stays usable until it is released. One that is being deleted cannot be held any more.
func TestHoldWhileItIsDeleted(t *testing.T) {
	for title, test := range map[string]struct {
		held, leaving client.Object
		uses, late    *infrav1.PortalCluster
		reason        string
	}{
		"a Secret": {secret("held", nil), secret("leaving", nil), user("a", "held"), user("b", "leaving"), infrav1.IdentityInvalidReason},
		"a PortalClusterIdentity": {
			shared("held", nil), shared("leaving", nil), sharing("default", "a", "held"), sharing("default", "b", "leaving"), infrav1.IdentityNotReadyReason,
		},
	} {
		test.leaving.SetFinalizers([]string{other})
		b := newBench(t, account(), test.held, test.leaving)
		b.hold(test.uses)
		b.delete(test.held, test.leaving)
		b.hold(test.uses)
		if _, o := b.resolver.Resolve(t.Context(), "default", test.uses.Spec.IdentityRef); !o.IsDone() {
			t.Errorf("%s that is held cannot be used: %+v", title, o)
		}
		if o := b.resolver.EnsureFinalizer(t.Context(), test.late); o.Kind != outcome.Stalled || o.Reason != test.reason {
			t.Errorf("%s that is on its way out: %+v", title, o)
		}
	}
}

// TestSharedSecret: the last of the PortalClusters releases the Secret that they share.
func TestSharedSecret(t *testing.T) {
	a, c := user("a", "id"), user("c", "id")
	for title, test := range map[string]struct {
		deleted []client.Object // before a leaves
		held    bool
	}{
		"one stays": {[]client.Object{a}, true},
		"one is deleted too, and its control plane is still there": {[]client.Object{a, c}, true},
		"both go at the same time":                                 {[]client.Object{a, c, controlPlane("c")}, false},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, secret("id", nil), user("a", "id"), user("c", "id"), controlPlane("c"))
			b.hold(a, c)
			b.delete(test.deleted...)
			b.leave(a)
			if b.held("id") != test.held {
				t.Errorf("held: %v", !test.held)
			}
		})
	}
}

// TestClustersWithoutFinalizer: a PortalCluster that never had our finalizer, because it is paused since its creation or another system
// provides its infrastructure, releases nothing when it is deleted. So it does not keep the Secret, or its namespace could never be deleted.
func TestClustersWithoutFinalizer(t *testing.T) {
	paused := user("paused", "id")
	paused.Finalizers = nil
	b := newBench(t, secret("id", nil), user("a", "id"), paused)
	b.hold(user("a", "id"))
	b.leave(user("a", "id"), user("a", "id")) // once more changes nothing
	b.remove(user("a", "id"))
	b.delete(paused, secret("id", nil))
	b.leave(user("a", "id")) // nor does a Secret that is gone
	if err := b.store.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "id"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret stays, although no PortalCluster is left: %v", err)
	}
}

// TestOtherSecretsAreLeftAlone: a PortalCluster of another Secret, or of another namespace, counts for nothing here.
func TestOtherSecretsAreLeftAlone(t *testing.T) {
	elsewhere := user("far", "id")
	elsewhere.Namespace = "elsewhere"
	b := newBench(t, secret("id", nil), secret("id-2", nil), user("a", "id"), user("c", "id-2"), elsewhere)
	b.hold(user("a", "id"), user("c", "id-2"))
	b.leave(user("a", "id"))
	if b.held("id") || !b.held("id-2") {
		t.Errorf("id held: %v, id-2 held: %v", b.held("id"), b.held("id-2"))
	}
}

// TestResolve checks that the outcome names the problem of a Secret and the remedy, without its content. A line break at the end of a password is
// found without a login: a portal may lock the user after some that it refuses.
func TestResolve(t *testing.T) {
	for title, test := range map[string]struct {
		key, value string
		says       string // empty: it can be used
	}{
		"fine":                                {infrav1.IdentityEmail, "a@portal.example", ""},
		"no password":                         {infrav1.IdentityPassword, "", `"password"`},
		"a line break":                        {infrav1.IdentityPassword, password + "\n", "password: ends with a line break"},
		"plain http":                          {infrav1.IdentityBaseURL, "http://portal.example", "https"},
		"a password in the URL":               {infrav1.IdentityBaseURL, "https://a:" + password + "@portal.example", "baseURL"},
		"a host that no administrator allows": {infrav1.IdentityBaseURL, "https://169.254.169.254", "baseURL"},
		"spoilt CA":                           {infrav1.IdentityCABundle, password, "caBundle"},
		"spoilt seed":                         {infrav1.IdentityTOTPSeed, password + "!", "totpSeed"},
		"a limit":                             {infrav1.IdentityRequestsPerMinute, " 600\n", ""},
		"no request at all":                   {infrav1.IdentityRequestsPerMinute, "0", "requestsPerMinute: must be a whole number"},
		"a limit in words":                    {infrav1.IdentityRequestsPerMinute, "6e2", "requestsPerMinute: must be a whole number"},
		"creations held":                      {infrav1.IdentityCreations, "held\n", ""},
		"held in another word":                {infrav1.IdentityCreations, "hold", "creations: must be allowed or held"},
		"too many requests":                   {infrav1.IdentityRequestsPerMinute, "1000001", "requestsPerMinute: must be a"},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, secret("id", func(d map[string][]byte) { d[test.key] = []byte(test.value) }))
			b.resolver.Hosts = &cloud.Hosts{}
			id, o := b.resolver.Resolve(t.Context(), "default", infrav1.PortalIdentityReference{Name: "id"})
			if test.says == "" {
				if held := test.value == "held\n"; !o.IsDone() || id.Portal == nil || id.Version == "" || id.CreationsHeld != held {
					t.Errorf("%+v %+v", id, o)
				}
				return
			}
			if o.Kind != outcome.Stalled || o.Reason != infrav1.IdentityInvalidReason || !strings.Contains(o.Message, test.says) {
				t.Errorf("%+v, want … %s …", o, test.says)
			}
			if strings.Contains(o.Message, password) {
				t.Errorf("the Secret's content is in %q", o.Message)
			}
		})
	}
}

// TestAccounts: an identity has its account's metrics while it can be used, and no longer.
func TestAccounts(t *testing.T) {
	b := newBench(t, secret("id", nil), user("a", "id"), user("c", "id"))
	resolve := func(want int) {
		t.Helper()
		_, _ = b.resolver.Resolve(t.Context(), "default", infrav1.PortalIdentityReference{Name: "id"})
		b.accounts(want)
	}
	b.accounts(0)
	for _, step := range []struct {
		key, value string
		want       int
	}{
		{infrav1.IdentityPassword, password, 1}, {infrav1.IdentityPassword, password, 1}, {infrav1.IdentityPassword, "", 0},
		{infrav1.IdentityPassword, "another", 1}, {infrav1.IdentityBaseURL, "http://portal.example", 0}, {infrav1.IdentityBaseURL, "https://portal.example", 1},
	} {
		s := b.secret("id")
		s.Data[step.key] = []byte(step.value)
		b.must(b.store.Update(t.Context(), s))
		resolve(step.want)
	}
	b.leave(user("a", "id"))
	b.accounts(1) // the other still needs it
	b.delete(user("a", "id"), user("c", "id"))
	b.leave(user("c", "id"))
	b.accounts(0)
	resolve(1)
	b.delete(secret("id", nil))
	resolve(0)
}

// accounts fails unless so many identities have metrics.
func (b *bench) accounts(want int) {
	b.Helper()
	if n := testutil.CollectAndCount(&b.resolver.Accounts, "capportal_account_info"); n != want {
		b.Errorf("%d identities have metrics, want %d", n, want)
	}
}
