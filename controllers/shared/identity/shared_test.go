// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

const home = "capportal-system"

// shared is the PortalClusterIdentity of that name. Its Secret, in the manager's namespace, is "account".
func shared(name string, change func(*infrav1.PortalClusterIdentitySpec)) *infrav1.PortalClusterIdentity {
	i := &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	i.Spec.SecretRef.Name = "account"
	i.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{List: []string{"default"}}
	if change != nil {
		change(&i.Spec)
	}
	return i
}

func account() *corev1.Secret {
	s := secret("account", nil)
	s.Namespace = home
	return s
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// sharing is the PortalCluster of that name, which uses the PortalClusterIdentity.
func sharing(namespace, name, of string) *infrav1.PortalCluster {
	c := user(name, of)
	c.Namespace, c.UID, c.Spec.IdentityRef.Kind = namespace, types.UID(namespace+"-"+name), infrav1.PortalIdentityShared
	return c
}

// get reads the object as it is now.
func get[T client.Object](b *bench, obj T) T {
	b.Helper()
	b.must(b.store.Get(b.Context(), client.ObjectKeyFromObject(obj), obj))
	return obj
}

// TestAllowedNamespaces: without namespaces an identity cannot be used, and with an empty selector every namespace can use it.
func TestAllowedNamespaces(t *testing.T) {
	matching := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	tests := map[string]struct {
		allowed *infrav1.PortalIdentityNamespaces
		want    bool
	}{
		"none":                    {nil, false},
		"no list and no selector": {&infrav1.PortalIdentityNamespaces{}, false},
		"in the list":             {&infrav1.PortalIdentityNamespaces{List: []string{"other", "default"}}, true},
		"not in the list":         {&infrav1.PortalIdentityNamespaces{List: []string{"default-2", "defaul"}}, false},
		"empty selector":          {&infrav1.PortalIdentityNamespaces{Selector: &metav1.LabelSelector{}}, true},
		"selector matches":        {&infrav1.PortalIdentityNamespaces{Selector: matching}, true},
		"selector does not match": {&infrav1.PortalIdentityNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}}, false},
		"list or selector":        {&infrav1.PortalIdentityNamespaces{List: []string{"other"}, Selector: matching}, true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			identity := shared("team", func(spec *infrav1.PortalClusterIdentitySpec) { spec.AllowedNamespaces = test.allowed })
			b := newBench(t, account(), identity, namespace("default", map[string]string{"team": "a"}))
			ref := sharing("default", "a", "team").Spec.IdentityRef
			id, o := b.resolver.Resolve(t.Context(), "default", ref)
			if o.IsDone() != test.want || test.want != (id.Portal != nil) {
				t.Errorf("%+v %+v", id, o)
			}
			if !test.want && (o.Kind != outcome.Stalled || o.Reason != infrav1.IdentityNotAllowedReason || !strings.Contains(o.Message, `"team"`)) {
				t.Errorf("%+v", o)
			}
			if o := b.resolver.EnsureFinalizer(t.Context(), sharing("default", "a", "team")); o.IsDone() != test.want {
				t.Errorf("hold: %+v", o)
			}
			if held := controllerutil.ContainsFinalizer(get(b, identity), infrav1.IdentityFinalizer); held != test.want {
				t.Errorf("held: %v", held)
			}
		})
	}
}

// TestTenantsLearnNothing: a namespace that is not allowed cannot find out whether the identity exists, and one that is allowed
// learns nothing about its Secret. The administrator's conditions report the problem.
func TestTenantsLearnNothing(t *testing.T) {
	tests := map[string]struct {
		change  func(*Resolver, *corev1.Secret, *infrav1.PortalClusterIdentity)
		reason  string
		checked string // what the administrator reads
	}{
		"no such identity": {func(_ *Resolver, _ *corev1.Secret, i *infrav1.PortalClusterIdentity) { i.Name = "another" }, infrav1.IdentityNotAllowedReason, ""},
		"not allowed and without Secret": {func(_ *Resolver, s *corev1.Secret, i *infrav1.PortalClusterIdentity) {
			i.Spec.AllowedNamespaces = nil
			s.Name = "another"
		}, infrav1.IdentityNotAllowedReason, `Secret "account" does not exist in namespace "capportal-system"`},
		"no Secret": {func(_ *Resolver, s *corev1.Secret, _ *infrav1.PortalClusterIdentity) { s.Name = "another" }, infrav1.IdentityNotReadyReason, `Secret "account" does not exist in namespace "capportal-system"`},
		"no password": {func(_ *Resolver, s *corev1.Secret, _ *infrav1.PortalClusterIdentity) {
			delete(s.Data, infrav1.IdentityPassword)
		}, infrav1.IdentityNotReadyReason, `Secret "account" in namespace "capportal-system" has no key "password"`},
		"manager without a namespace": {func(r *Resolver, _ *corev1.Secret, _ *infrav1.PortalClusterIdentity) { r.Namespace = "" },
			infrav1.IdentityNotReadyReason, ""},
		"a malformed selector": {func(_ *Resolver, _ *corev1.Secret, i *infrav1.PortalClusterIdentity) {
			i.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Like"}},
			}}
		}, infrav1.IdentityNotAllowedReason, "selector"},
		"a Secret of the tenant's own": {func(_ *Resolver, s *corev1.Secret, _ *infrav1.PortalClusterIdentity) { s.Namespace = "default" },
			infrav1.IdentityNotReadyReason, `Secret "account" does not exist in namespace "capportal-system"`},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			account, identity, namespaceOf := account(), shared("team", nil), &Resolver{Namespace: home}
			test.change(namespaceOf, account, identity)
			b := newBench(t, account, identity)
			b.resolver.Namespace = namespaceOf.Namespace
			c := sharing("default", "a", "team")
			_, resolved := b.resolver.Resolve(t.Context(), "default", c.Spec.IdentityRef)
			for what, o := range map[string]outcome.Outcome{"resolve": resolved, "hold": b.resolver.EnsureFinalizer(t.Context(), c)} {
				if o.Kind != outcome.Stalled || o.Reason != test.reason || !strings.Contains(o.Message, `PortalClusterIdentity "team"`) {
					t.Errorf("%s: %+v", what, o)
				}
				for _, secret := range []string{"account", home, "password", "http"} {
					if strings.Contains(o.Message, secret) {
						t.Errorf("%s says %q: %s", what, secret, o.Message)
					}
				}
			}
			if o := b.resolver.Check(t.Context(), identity); test.checked != "" && (o.Kind != outcome.Stalled || !strings.Contains(o.Message, test.checked)) {
				t.Errorf("the administrator reads %+v, want … %s …", o, test.checked)
			}
		})
	}
}

// TestSharedAccounts: a Secret and a PortalClusterIdentity of one name have separate metrics, and a namespace that is not allowed
// removes no other identity's metrics.
func TestSharedAccounts(t *testing.T) {
	b := newBench(t, account(), shared("id", nil), secret("id", nil))
	_, _ = b.resolver.Resolve(t.Context(), "default", infrav1.PortalIdentityReference{Name: "id"})
	_, _ = b.resolver.Resolve(t.Context(), "default", sharing("default", "a", "id").Spec.IdentityRef)
	b.accounts(2)
	_, _ = b.resolver.Resolve(t.Context(), "elsewhere", sharing("elsewhere", "a", "id").Spec.IdentityRef)
	b.accounts(2)
	b.delete(account())
	_, _ = b.resolver.Resolve(t.Context(), "default", sharing("default", "a", "id").Spec.IdentityRef)
	b.accounts(1)
}

// TestHoldShared: an identity is held until the last PortalCluster of any namespace is gone. Its Secret is neither held nor moved.
func TestHoldShared(t *testing.T) {
	identity := shared("team", func(spec *infrav1.PortalClusterIdentitySpec) {
		spec.AllowedNamespaces.List = []string{"default", "elsewhere"}
	})
	a, c, unrelated := sharing("default", "a", "team"), sharing("elsewhere", "c", "team"), sharing("default", "u", "another")
	own := user("own", "team")
	b := newBench(t, account(), identity, secret("team", nil), a, c, unrelated, own)
	b.hold(a, c, own)
	held := func(want bool) {
		t.Helper()
		s := get(b, account())
		if of := controllerutil.ContainsFinalizer(get(b, identity), infrav1.IdentityFinalizer); of != want {
			t.Errorf("the identity is held: %v", of)
		}
		if len(s.Finalizers) > 0 {
			t.Errorf("the Secret is held: %v", s.Finalizers)
		}
		if _, moves := s.Labels[clusterctlv1.ClusterctlMoveLabel]; moves {
			t.Error("clusterctl move would take the Secret away from those who stay")
		}
	}
	release := func(want int) {
		t.Helper()
		if n, err := b.resolver.RemoveUnusedFinalizers(t.Context(), get(b, identity)); err != nil || n != want {
			t.Errorf("%d users, %v, want %d", n, err, want)
		}
	}
	held(true)
	release(2)
	b.leave(a)
	if !b.held("team") {
		t.Error("the namespace's own Secret of that name was released")
	}
	b.remove(a)
	release(1)
	held(true)
	b.remove(c)
	release(0)
	held(false)
	release(0)
}

// TestSharedSecretCanBeDeleted deletes the Secret of an identity in use, as the deletion of the manager's namespace does. When it is created again,
// the identity can be used again.
func TestSharedSecretCanBeDeleted(t *testing.T) {
	a := sharing("default", "a", "team")
	b := newBench(t, account(), shared("team", nil), a)
	b.hold(a)
	b.delete(account())
	if err := b.store.Get(t.Context(), client.ObjectKeyFromObject(account()), account()); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret, and the namespace that is being deleted, stay: %v", err)
	}
	if n, err := b.resolver.RemoveUnusedFinalizers(t.Context(), get(b, shared("team", nil))); err != nil || n != 1 {
		t.Errorf("%d users, %v", n, err)
	}
	b.must(b.store.Create(t.Context(), account()))
	if id, o := b.resolver.Resolve(t.Context(), "default", a.Spec.IdentityRef); !o.IsDone() || id.Portal == nil {
		t.Errorf("%+v", o)
	}
}

// TestUsers checks which PortalClusters a changed Secret or identity wakes.
func TestUsers(t *testing.T) {
	own := user("own", "account")
	own.Namespace = home
	b := newBench(t, account(), shared("team", nil), user("a", "account"), user("s", "team"),
		sharing("default", "c", "team"), sharing("elsewhere", "d", "team"), sharing("default", "e", "account"), own)
	tests := map[string]struct {
		obj  client.Object
		want []string
	}{
		"the identity":                     {shared("team", nil), []string{"default/c", "elsewhere/d"}},
		"its Secret":                       {account(), []string{"capportal-system/own", "default/c", "elsewhere/d"}},
		"a tenant's Secret of that name":   {secret("account", nil), []string{"default/a"}},
		"a Secret of the identity's name":  {secret("team", nil), []string{"default/s"}},
		"another Secret of the namespace":  {secret("none", nil), nil},
		"an identity of the Secret's name": {shared("account", nil), []string{"default/e"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			users, err := b.resolver.Users(t.Context(), test.obj)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range users {
				got = append(got, client.ObjectKeyFromObject(&users[i]).String())
			}
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("%v, want %v", got, test.want)
			}
		})
	}
}
