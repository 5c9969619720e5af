// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// watched is the namespace of config/namespaced.
const watched = "fleet"

var box *sandbox.Sandbox

// TestMain starts the API server. The manager's account has the rights of config/namespaced.
func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, &box, suite.Options{
		Sandbox: sandbox.Options{Dir: os.Getenv("CONTRACT_DIR"), APIServerOnly: true, Components: []string{"namespaced"}},
		Setup:   func(ctx context.Context) error { return suite.AwaitPolicies(ctx, box) },
	}))
}

// fixture is a test with a namespace of its own.
type fixture struct {
	*testing.T
	*WithT
	namespace string
	objects   suite.Objects // do not exist yet
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{T: t, WithT: NewWithT(t)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "contract-"}}
	f.create(namespace)
	f.namespace = namespace.Name
	f.objects = suite.NewObjects(metav1.ObjectMeta{Namespace: f.namespace, Name: "prod"}, "identity")
	return f
}

func (f *fixture) create(o client.Object) {
	f.Helper()
	f.Expect(box.Client.Create(f.Context(), o)).To(Succeed())
}

// everything is the rule of a tenant.
var everything = rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}

// tenant returns a client of a user who has all rights in the namespace of the test and none elsewhere.
func (f *fixture) tenant() client.Client {
	f.Helper()
	return f.user("tenant", f.namespace, everything)
}

// user returns a client of a user, who gets the rights of the rule in the namespace or, if it is empty, in all namespaces.
func (f *fixture) user(name, namespace string, rule rbacv1.PolicyRule) client.Client {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: f.namespace + "-" + name}
	rules, subjects := []rbacv1.PolicyRule{rule}, []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: meta.Name}}
	if namespace != "" {
		f.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
		f.create(&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role("Role", meta.Name), Subjects: subjects})
	} else {
		f.create(&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
		f.create(&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role("ClusterRole", meta.Name), Subjects: subjects})
	}
	return as(f.T, meta.Name)
}

func role(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// as returns a client that acts as the user.
func as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(box.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: box.Client.Scheme(), Mapper: box.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// changed changes the object as the user, in a dry run.
func changed[T client.Object](f *fixture, c client.Client, o T, change func(T)) error {
	f.Helper()
	now, _ := o.DeepCopyObject().(T)
	f.Expect(box.Client.Get(f.Context(), client.ObjectKeyFromObject(o), now)).To(Succeed())
	before, _ := now.DeepCopyObject().(T)
	change(now)
	return c.Patch(f.Context(), now, client.MergeFrom(before), client.DryRunAll)
}

// merge sends a merge patch as a dry run.
func (f *fixture) merge(o client.Object, patch string) error {
	f.Helper()
	o, _ = o.DeepCopyObject().(client.Object)
	return box.Client.Patch(f.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
}
