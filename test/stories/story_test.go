// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
	suite.Objects
	secret *corev1.Secret
}

// newStory prepares a story with two workers. Nothing is applied yet.
func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{Fixture: suite.NewFixture(t, box, suite.User("story", accounts.Next(t)))}
	s.ClusterName = name
	s.secret = s.IdentitySecret(identity)
	s.Objects = suite.NewObjects(metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, identity)
	s.Deployment.Spec.Deletion.Order = clusterv1.NewestMachineSetDeletionOrder
	return s
}

// objects returns the objects of the story in the order of a manifest, the Secret first.
func (s *story) objects() []client.Object {
	return []client.Object{s.secret, s.Cluster, s.PortalCluster, s.ControlPlane, s.Deployment, s.Template, s.Bootstrap}
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
	suite.Change(s.Fixture, s.Deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
}

// settled waits until core has acted on the replicas and the Cluster is available, with the given number of workers, each with a Machine.
func (s *story) settled(workers int) {
	s.Helper()
	s.Eventually(func() bool {
		s.Get(s.Deployment)
		return s.Deployment.Status.ObservedGeneration == s.Deployment.Generation
	}).Should(BeTrue(), "core has observed the MachineDeployment")
	s.AwaitReady(s.Cluster, workers)
	s.Eventually(func() [2]int { return [2]int{len(s.Machines()), len(s.Nodes())} }).Should(Equal([2]int{workers, workers}), "Machines and worker Nodes")
	s.Eventually(s.Condition(s.ControlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("True"))
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

// end deletes the whole manifest in reverse order, and waits until nothing is left.
func (s *story) end() {
	s.Helper()
	for _, o := range slices.Backward(s.objects()) {
		s.Expect(client.IgnoreNotFound(s.Box.Client.Delete(s.Context(), o))).To(Succeed())
	}
	s.gone()
	s.Eventually(s.Gone(s.secret)).Should(BeTrue(), "the provider releases the identity Secret")
}
