// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	name     = "prod"
	identity = "portal-identity"

	// patience is longer than core may take to connect to a workload cluster, even on a busy host.
	patience = 4 * time.Minute
)

// story is one Cluster in its own namespace, under its own portal account.
type story struct {
	*testing.T
	*WithT
	number    int
	namespace string

	secret        *corev1.Secret
	cluster       *clusterv1.Cluster
	portalCluster *infrav1.PortalCluster
	controlPlane  *infrav1.PortalControlPlane
	deployment    *clusterv1.MachineDeployment
	template      *infrav1.PortalMachineTemplate
	bootstrap     *infrav1.PortalBootstrapConfigTemplate

	begin int    // length of the portal's request log when the event happens
	id    string // of the portal cluster
}

// tell prepares a story with two workers. Nothing is applied yet.
func tell(t *testing.T) *story {
	t.Helper()
	i := nextAccount(t)
	s := &story{T: t, WithT: NewWithT(t), number: i, namespace: fmt.Sprintf("row-%d", i)}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	s.createNamespace(box, s.namespace)
	s.compose()
	t.Cleanup(s.demolish)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(box.Describe(context.WithoutCancel(t.Context()), s.namespace, account(i)))
		}
	})
	return s
}

func nextAccount(t *testing.T) int {
	t.Helper()
	i := int(used.Add(1)) - 1
	if i >= accounts {
		t.Fatal("more rows than accounts: raise the constant")
	}
	return i
}

func (s *story) createNamespace(at *sandbox.Sandbox, namespace string) {
	s.Helper()
	s.Expect(at.Client.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
}

func (s *story) compose() {
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	ref := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
	}
	s.secret = s.identitySecret(s.number)
	s.cluster = &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: ref("PortalCluster"), ControlPlaneRef: ref("PortalControlPlane"),
	}}
	s.portalCluster = &infrav1.PortalCluster{ObjectMeta: meta, Spec: infrav1.PortalClusterSpec{
		IdentityRef: infrav1.PortalIdentityReference{Name: identity}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
	}}
	s.controlPlane = &infrav1.PortalControlPlane{ObjectMeta: meta, Spec: infrav1.PortalControlPlaneSpec{
		Version: "v1.35.6", Replicas: ptr.To[int32](1),
	}}
	s.template = &infrav1.PortalMachineTemplate{ObjectMeta: meta}
	s.template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	s.bootstrap = &infrav1.PortalBootstrapConfigTemplate{ObjectMeta: meta}
	s.deployment = &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: name, Replicas: ptr.To[int32](2),
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: name, Version: "v1.35.6", InfrastructureRef: ref("PortalMachineTemplate"),
			Bootstrap: clusterv1.Bootstrap{ConfigRef: ref("PortalBootstrapConfigTemplate")},
		}},
	}}
}

// identitySecret returns the identity Secret with the credentials of the account's user provider.
func (s *story) identitySecret(account int) *corev1.Secret {
	secret := box.IdentitySecret(client.ObjectKey{Namespace: s.namespace, Name: identity})
	secret.StringData[infrav1.IdentityEmail], secret.StringData[infrav1.IdentityPassword] = email(provider, account), password(provider, account)
	return secret
}

// objects returns the objects of the story in the order of a manifest.
func (s *story) objects() []client.Object {
	return []client.Object{s.secret, s.cluster, s.portalCluster, s.controlPlane, s.bootstrap, s.template, s.deployment}
}

// settle applies the story and waits until its workers are ready.
func (s *story) settle() {
	s.Helper()
	for _, o := range s.objects() {
		s.Expect(box.Client.Create(s.Context(), o)).To(Succeed())
	}
	s.settled(box)
	s.id = s.portalClusters()[0].ID
	s.fetch(s.controlPlane)
}

// settled waits until the Cluster is available and both Machines are ready.
func (s *story) settled(at *sandbox.Sandbox) {
	s.Helper()
	cluster := &clusterv1.Cluster{}
	s.Eventually(func() string {
		if err := at.Client.Get(s.Context(), client.ObjectKeyFromObject(s.cluster), cluster); err != nil {
			return err.Error()
		}
		return conditions.GetMessage(cluster, clusterv1.ClusterAvailableCondition) + fmt.Sprint(conditions.IsTrue(cluster, clusterv1.ClusterAvailableCondition))
	}).Should(Equal("true"))
	s.Eventually(func() (ready int) {
		machines := &clusterv1.MachineList{}
		s.Expect(at.Client.List(s.Context(), machines, client.InNamespace(s.namespace))).To(Succeed())
		for i := range machines.Items {
			if conditions.IsTrue(&machines.Items[i], clusterv1.MachineReadyCondition) && machines.Items[i].DeletionTimestamp.IsZero() {
				ready++
			}
		}
		return ready
	}).Should(Equal(2), "Machines that are ready")
}

func (s *story) fetch(o client.Object) {
	s.Helper()
	s.Expect(box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
}

// change patches an object until the API server accepts the patch.
func change[T client.Object](s *story, o T, change func(T)) {
	s.Helper()
	s.Eventually(func() error {
		if err := box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return box.Client.Patch(s.Context(), o, client.MergeFrom(before))
	}).Should(Succeed())
}

func (s *story) delete(o client.Object) {
	s.Helper()
	s.Expect(box.Client.Delete(s.Context(), o)).To(Succeed())
}

// requests returns the requests since the event with which the provider's user changed something at the portal.
func (s *story) requests() []string {
	all := []string{}
	for _, e := range box.Portal.RequestLog()[s.begin:] {
		changes := e.Method == "POST" || e.Method == "DELETE"
		if changes && e.User == userID(provider, s.number) && (strings.HasPrefix(e.Route, "/kubernetes-clusters") || strings.HasPrefix(e.Route, "/networks")) {
			all = append(all, fmt.Sprintf("%s %s → %d", e.Method, e.Route, e.Status))
		}
	}
	return all
}

// portalClusters returns the portal clusters of the account.
func (s *story) portalClusters() []emulator.Cluster {
	return slices.DeleteFunc(box.Portal.Clusters(), func(c emulator.Cluster) bool { return c.Account != account(s.number) })
}

// person returns a client of the portal for a person who uses the same account.
func (s *story) person() *cloud.Client {
	s.Helper()
	c, err := cloud.New(cloud.Config{
		BaseURL: box.Portal.URL(), CABundle: box.Portal.CAPEM(), Wait: true,
		Email: email(person, s.number), Password: password(person, s.number),
	})
	s.Expect(err).NotTo(HaveOccurred())
	return c
}
