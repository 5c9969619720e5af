// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	identity = "portal-identity"
	name     = "prod"

	// window is how long an attack has to do its harm, if no event follows it. Without the controls, attacks need less than half of it.
	window = 16 * time.Second
	poll   = 100 * time.Millisecond
)

// tenant has all rights in one namespace and no rights elsewhere.
type tenant struct {
	*testing.T
	number    int
	namespace string
	client    client.Client // with the tenant's rights
}

func newTenant(t *testing.T, number int) *tenant {
	t.Helper()
	if number >= accounts {
		t.Fatal("more rows than accounts: raise the constant")
	}
	n := &tenant{T: t, number: number, namespace: fmt.Sprintf("tenant-%d", number)}
	n.client = n.inNamespace(n.namespace)
	n.must(n.client.Create(n.Context(), n.secret(n.namespace, attacker)))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(box.Describe(context.WithoutCancel(t.Context()), n.namespace, user(attacker, number).Account))
		}
	})
	return n
}

// inNamespace creates a namespace with a user who has all rights in it, and returns the user's client.
func (t *tenant) inNamespace(namespace string) client.Client {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "everything"}
	every := []string{"*"}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: every, Resources: every, Verbs: every}}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: namespace}},
		},
	} {
		t.must(box.Client.Create(t.Context(), o))
	}
	config := rest.CopyConfig(box.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: namespace, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: box.Client.Scheme()})
	t.must(err)
	return c
}

func (t *tenant) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// accepted reports whether the API server accepted a write. A refusal ends the attack. Conflicts and unexpected errors fail the test.
func (t *tenant) accepted(err error) bool {
	t.Helper()
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		t.Logf("refused: %v", err)
		return false
	}
	t.must(err)
	return true
}

// create applies objects with the tenant's rights. It reports whether the API server accepted all of them.
func (t *tenant) create(objects ...client.Object) bool {
	t.Helper()
	for _, o := range objects {
		if !t.accepted(t.client.Create(t.Context(), o)) {
			return false
		}
	}
	return true
}

// seen returns the harm as soon as it is done, or "" if the window ends before.
func (t *tenant) seen(harm string, done func() bool) string {
	t.Helper()
	for end := time.Now().Add(window); time.Now().Before(end); time.Sleep(poll) {
		if done() {
			return harm
		}
	}
	return ""
}

// await waits until the preparation of a row is done.
func (t *tenant) await(what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(suite.Patience); !done(); time.Sleep(poll) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, suite.Patience)
		}
	}
}

// secret returns the identity Secret with the credentials of one of the account's users.
func (t *tenant) secret(namespace, who string) *corev1.Secret {
	s := box.IdentitySecret(client.ObjectKey{Namespace: namespace, Name: identity})
	s.StringData[infrav1.IdentityEmail], s.StringData[infrav1.IdentityPassword] = user(who, t.number).Email, user(who, t.number).Password
	return s
}

// cluster holds a Cluster and its objects. They do not have to exist yet.
type cluster struct {
	cluster       *clusterv1.Cluster
	portalCluster *infrav1.PortalCluster
	controlPlane  *infrav1.PortalControlPlane
}

// newCluster composes a Cluster without workers. The name of its control plane, and of its portal cluster, is unique to the row.
func (t *tenant) newCluster(namespace, name string) *cluster {
	o := suite.NewObjects(metav1.ObjectMeta{Namespace: namespace, Name: name}, identity)
	o.ControlPlane.Spec.Workers = &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	return &cluster{cluster: o.Cluster, portalCluster: o.PortalCluster, controlPlane: o.ControlPlane}
}

func (c *cluster) objects() []client.Object {
	return []client.Object{c.cluster, c.portalCluster, c.controlPlane}
}

// own composes a Cluster of the tenant. Its portal cluster has the given kubeconfig, if config is not nil.
func (t *tenant) own(config []byte) *cluster {
	c := t.newCluster(t.namespace, fmt.Sprintf("own-%d", t.number))
	if config != nil {
		workloads.serve(c.controlPlane.Name, config)
	}
	return c
}

// victim creates a Cluster of another tenant, in another namespace, under the same portal account.
func (t *tenant) victim(change func(*cluster)) *cluster {
	t.Helper()
	namespace := fmt.Sprintf("victim-%d", t.number)
	theirs := t.inNamespace(namespace)
	t.must(theirs.Create(t.Context(), t.secret(namespace, victim)))
	c := t.newCluster(namespace, name)
	if change != nil {
		change(c)
	}
	for _, o := range c.objects() {
		t.must(theirs.Create(t.Context(), o))
	}
	t.await("the victim's cluster", func() bool { return t.stored(c) != nil })
	t.must(box.Client.Get(t.Context(), client.ObjectKeyFromObject(c.controlPlane), c.controlPlane))
	return c
}

// stored returns the content of the kubeconfig Secret of the Cluster, or nil.
func (t *tenant) stored(c *cluster) []byte {
	s := t.kubeconfigSecret(c)
	if box.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s) != nil {
		return nil
	}
	return s.Data["value"]
}

func (t *tenant) kubeconfigSecret(c *cluster) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.cluster.Namespace, Name: c.cluster.Name + "-kubeconfig",
			Labels: map[string]string{clusterv1.ClusterNameLabel: c.cluster.Name},
		},
		Type: clusterv1.ClusterSecretType,
	}
}

// received reports whether the tenant's namespace receives the kubeconfig of the portal cluster.
func (t *tenant) received(c *cluster, id string) string {
	t.Helper()
	return t.seen("the tenant's namespace received the kubeconfig of another's portal cluster", func() bool {
		return strings.Contains(string(t.stored(c)), id)
	})
}

// portalCluster creates a cluster at the portal as a person would, without any object, and returns its id and the job that created it.
func (t *tenant) portalCluster(name string) (id, job string) {
	t.Helper()
	portal, err := cloud.New(cloud.Config{
		BaseURL: box.Portal.URL(), CABundle: box.Portal.CAPEM(), Wait: true, Email: user(person, t.number).Email, Password: user(person, t.number).Password,
	})
	t.must(err)
	vpcs, err := portal.VPCs(t.Context(), "default")
	t.must(err)
	created, err := portal.CreateCluster(t.Context(), cloud.CreateClusterRequest{
		Name: name, Description: "a person's", ZoneID: "zone-1", KubernetesVersionID: box.Portal.Versions()[0].ID, ServiceOfferingID: "small",
		ControlNodes: 1, VPCID: vpcs[0].ID, SSHKeyPair: "ops",
	})
	t.must(err)
	t.await("the person's cluster", func() bool {
		for _, c := range t.portalClusters() {
			if c.Name == name && c.State == emulator.ClusterRunning {
				id = c.ID
			}
		}
		return id != ""
	})
	return id, created.ID
}

// portalClusters returns the clusters of the account.
func (t *tenant) portalClusters() (all []emulator.Cluster) {
	for _, c := range box.Portal.Clusters() {
		if c.Account == user(attacker, t.number).Account {
			all = append(all, c)
		}
	}
	return all
}

// fetched returns the object as it is now.
func fetched[T client.Object](t *tenant, o T) T {
	t.Helper()
	t.must(box.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	return o
}
