// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	name     = "story"
	identity = "portal-identity"
)

// story is one Cluster in a namespace and an account of its own.
type story struct {
	*suite.Fixture

	secret        *corev1.Secret
	cluster       *clusterv1.Cluster
	portalCluster *infrav1.PortalCluster
	controlPlane  *infrav1.PortalControlPlane
	deployment    *clusterv1.MachineDeployment
	template      *infrav1.PortalMachineTemplate
}

// newStory prepares a story with two workers. Nothing is applied yet.
func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{Fixture: suite.NewFixture(t, box, suite.User("story", accounts.Next(t)))}
	s.ClusterName = name
	s.secret = s.IdentitySecret(identity)
	s.compose()
	return s
}

func (s *story) compose() {
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: name}
	objects := suite.NewObjects(meta, identity)
	s.cluster, s.portalCluster, s.controlPlane, s.template = objects.Cluster, objects.PortalCluster, objects.ControlPlane, objects.Template
	s.deployment = newDeployment(meta, 2)
}

// newDeployment returns a MachineDeployment that uses the PortalMachineTemplate of the same name.
func newDeployment(meta metav1.ObjectMeta, replicas int32) *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: name,
		Replicas:    &replicas,
		Deletion:    clusterv1.MachineDeploymentDeletionSpec{Order: clusterv1.NewestMachineSetDeletionOrder},
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: name, Version: "v1.35.6",
			Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachineTemplate", Name: meta.Name,
			},
		}},
	}}
}

// objects returns the objects of the story in the order of a manifest, the Secret first.
func (s *story) objects() []client.Object {
	return []client.Object{s.secret, s.cluster, s.portalCluster, s.controlPlane, s.deployment, s.template}
}

// apply creates all objects of the story.
func (s *story) apply() {
	s.Helper()
	for _, o := range s.objects() {
		s.Create(o)
	}
}

func (s *story) scale(replicas int32) {
	s.Helper()
	suite.Change(s.Fixture, s.deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
}

// live reads the control plane again and returns it.
func (s *story) live() *infrav1.PortalControlPlane {
	s.Helper()
	s.Get(s.controlPlane)
	return s.controlPlane
}

// upgrade raises the version of the control plane, and waits until the conditions report that all of the cluster runs it.
func (s *story) upgrade(version string) {
	s.Helper()
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = version })
	s.upgraded(version)
}

// upgraded waits until the status and the conditions report that all of the cluster runs the version.
func (s *story) upgraded(version string) {
	s.Helper()
	s.Eventually(func() string { return s.live().Status.Version }).Should(Equal(version))
	s.Eventually(s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)).Should(HavePrefix("True"))
}

// settled waits until core has acted on the replicas and the Cluster is available. The Cluster then has the given number of workers, and
// each worker Node has a Machine that is Ready.
func (s *story) settled(workers int) {
	s.Helper()
	s.Eventually(s.behind).Should(BeEmpty(), "MachineDeployments that core has not observed yet")
	s.Eventually(s.Condition(s.cluster, clusterv1.ClusterAvailableCondition)).Should(HavePrefix("True"))
	s.bound(workers)
	s.Eventually(s.Condition(s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("True"))
}

// bound waits until the Cluster has the given number of Machines and of worker Nodes, and each Machine is Ready on one of the Nodes.
func (s *story) bound(workers int) {
	s.Helper()
	s.Eventually(func() (got [3]int) {
		machines, nodes := s.Machines(), s.Nodes()
		ready := 0
		for _, m := range machines {
			if conditions.IsTrue(&m, clusterv1.MachineReadyCondition) && slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == m.Status.NodeRef.Name }) {
				ready++
			}
		}
		return [3]int{len(machines), len(nodes), ready}
	}).Should(Equal([3]int{workers, workers, workers}), "Machines, worker Nodes, Machines that are Ready on one")
}

// behind returns the MachineDeployments whose latest spec core has not observed. Their number of Machines may still be that of earlier
// replicas.
func (s *story) behind() (names []string) {
	s.Helper()
	list := &clusterv1.MachineDeploymentList{}
	s.List(list)
	for _, d := range list.Items {
		if d.Status.ObservedGeneration != d.Generation {
			names = append(names, d.Name)
		}
	}
	return names
}

// gone waits until no Cluster API object of the story exists, and checks that the account has no portal cluster.
func (s *story) gone() {
	s.Helper()
	lists := []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{},
		&clusterv1.MachinePoolList{}, &infrav1.PortalMachinePoolList{},
	}
	s.Eventually(func() []string { return s.Left(lists...) }).Should(BeEmpty())
	s.Expect(s.PortalClusters()).To(BeEmpty())
}

// end deletes everything, and waits until nothing is left. Most stories end with it.
func (s *story) end() {
	s.Helper()
	s.deleteAll()
	s.gone()
}

// deleteAll deletes everything at once, as kubectl delete -f does.
func (s *story) deleteAll() {
	s.Helper()
	for _, o := range s.objects() {
		s.Expect(client.IgnoreNotFound(s.Box.Client.Delete(s.Context(), o))).To(Succeed())
	}
}

func (s *story) secretIsGone() {
	s.Helper()
	s.Eventually(s.Gone(s.secret)).Should(BeTrue(), "the provider releases the identity Secret")
}
