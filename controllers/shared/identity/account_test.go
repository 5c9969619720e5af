// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/uuid"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// at is a portal in another process, with users of one account.
func at(t *testing.T) *emulator.Portal {
	t.Helper()
	quiet := emulator.Shapes{QuietLimits: true} // a limit in an answer would replace that of the Secret
	portal, err := emulator.New(emulator.Options{Seed: 1, Shapes: quiet, Users: []emulator.User{
		{Email: "a@portal.example", Password: password}, {Email: "b@portal.example", Password: password},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	if err := portal.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return portal
}

// login puts a Secret into the namespace and returns the limiter of its account, which a login has proved.
func (b *bench) login(portal *emulator.Portal, namespace string, data map[string]string) *ratelimit.Limiter {
	b.Helper()
	s := secret("id", nil)
	s.Namespace, s.UID = namespace, uuid.NewUUID() // the store gives none
	s.Data[infrav1.IdentityBaseURL], s.Data[infrav1.IdentityCABundle] = []byte(portal.URL()), portal.CAPEM()
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	b.must(b.store.Create(b.Context(), s))
	id, o := b.resolver.Resolve(b.Context(), namespace, infrav1.PortalIdentityReference{Name: "id"})
	if !o.IsDone() {
		b.Fatalf("%+v", o)
	}
	if _, err := id.Portal.UserID(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.must(b.store.Delete(b.Context(), s))
	return id.Portal.Limiter()
}

// TestAccountOfASecret: the name of an account joins the users of one namespace. A tenant who writes another tenant's account
// name shares nothing with them.
func TestAccountOfASecret(t *testing.T) {
	b, portal := newBench(t), at(t)
	acme := map[string]string{infrav1.IdentityAccount: "acme"}
	acmeOfB := map[string]string{infrav1.IdentityAccount: "acme", infrav1.IdentityEmail: "b@portal.example"}
	plain := b.login(portal, "team-a", nil)
	ours := b.login(portal, "team-a", acme)
	if b.login(portal, "team-a", acmeOfB) != ours {
		t.Error("two users of an account that their Secrets name have two rate limits")
	}
	if b.login(portal, "team-b", acmeOfB) == ours {
		t.Error("another namespace shares the rate limit because it knows the account's name")
	}
	if b.login(portal, "team-b", nil) != plain {
		t.Error("the same user has two rate limits")
	}
}

// TestLineBreaks: what is piped into a Secret often ends with a line break. It makes no other user, account or limit.
func TestLineBreaks(t *testing.T) {
	b, portal := newBench(t), at(t)
	data := map[string]string{
		infrav1.IdentityBaseURL: portal.URL(), infrav1.IdentityEmail: "a@portal.example", infrav1.IdentityAccount: "acme", infrav1.IdentityRequestsPerMinute: "900",
	}
	typed := b.login(portal, "team-a", data)
	for key := range data {
		data[key] += "\r\n"
	}
	if b.login(portal, "team-a", data) != typed || typed.Stats().Limit != 900 {
		t.Errorf("a line break makes another account, or another limit than %d", typed.Stats().Limit)
	}
}

// TestOneTenantsIdentities: a namespace with very many Secrets does not make another one log in again.
func TestOneTenantsIdentities(t *testing.T) {
	b := newBench(t, secret("id", nil))
	ref := infrav1.PortalIdentityReference{Name: "id"}
	first, _ := b.resolver.Resolve(t.Context(), "default", ref)
	for i := range 1100 {
		s := secret("id", func(d map[string][]byte) { d[infrav1.IdentityPassword] = fmt.Append(nil, i) })
		s.Namespace = "greedy"
		b.must(b.store.Create(t.Context(), s))
		if _, o := b.resolver.Resolve(t.Context(), "greedy", ref); !o.IsDone() {
			t.Fatalf("%+v", o)
		}
		b.must(b.store.Delete(t.Context(), s))
	}
	if again, _ := b.resolver.Resolve(t.Context(), "default", ref); again.Portal != first.Portal {
		t.Error("another namespace's identities pushed out the client")
	}
}
