// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// In these stories several control planes name the same portal cluster: clones, and objects restored from a backup. One of them owns the
// portal cluster. The others change nothing, and the provider creates no second portal cluster.

// cloneOf makes the story a copy of the other one, in its own namespace and with the other's account. The copy asks for three workers.
func (s *story) cloneOf(other *story) {
	s.Helper()
	s.User.Account, s.secret.StringData, s.secret.Data = other.User.Account, nil, other.secret.Data
	s.controlPlane.Spec, s.controlPlane.Annotations = *other.live().Spec.DeepCopy(), other.controlPlane.Annotations
	s.deployment.Spec.Replicas = ptr.To[int32](3)
}

// live reads the control plane again and returns it.
func (s *story) live() *infrav1.PortalControlPlane {
	s.Helper()
	s.Get(s.controlPlane)
	return s.controlPlane
}

// awaitDeletion waits until the Cluster of the story is gone.
func (s *story) awaitDeletion() {
	s.Helper()
	s.Eventually(s.Gone(s.cluster)).Should(BeTrue())
}

// TestHandOver deletes the owner of a portal cluster with the policy Retain while another control plane waits for the cluster. The other
// control plane adopts the cluster, also with Retain, until the user changes the policy.
func TestHandOver(t *testing.T) {
	t.Parallel()
	s, heir := newStory(t), newStory(t)
	s.apply()
	s.settled(2)
	nodes := uids(s.Nodes())
	heir.cloneOf(s)
	heir.controlPlane.Annotations = nil
	heir.deployment.Spec.Replicas = ptr.To[int32](2)
	heir.apply()
	heir.Eventually(heir.Condition(heir.controlPlane, infrav1.ProvisionedCondition)).Should(HavePrefix("False " + infrav1.OwnedByAnotherReason))

	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	s.Expect(s.Box.Client.Delete(s.Context(), s.cluster)).To(Succeed())
	s.awaitDeletion()
	heir.settled(2)
	heir.Expect(heir.live().Spec.DeletionPolicy).To(Equal(infrav1.DeletionPolicyRetain))
	heir.Expect(uids(heir.Nodes())).To(ConsistOf(nodes))
	heir.Expect(heir.Changes()).To(Equal([]string{createRequest}))
	suite.Change(heir.Fixture, heir.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyDelete })
	heir.end()
}

// retire deletes the objects and waits until they are gone. The portal cluster is retained.
func (s *story) retire() {
	s.Helper()
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	for _, o := range s.objects()[1:] {
		s.Expect(s.Box.Client.Delete(s.Context(), o)).To(Succeed())
	}
	s.awaitDeletion()
	for _, o := range s.objects()[1:] {
		s.Eventually(s.Gone(o)).Should(BeTrue())
	}
}

// backup returns the control plane as a backup holds it, without status and without the fields that the API server sets.
func (s *story) backup() *infrav1.PortalControlPlane {
	s.Helper()
	live := s.live()
	return &infrav1.PortalControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: live.Namespace, Name: live.Name, Labels: live.Labels, Annotations: live.Annotations, Finalizers: live.Finalizers},
		Spec:       *live.Spec.DeepCopy(),
	}
}

// saveWhileItWaits applies the story without its MachineDeployment and template, so that the creation waits for workers. It returns a
// backup of this state.
func (s *story) saveWhileItWaits() *infrav1.PortalControlPlane {
	s.Helper()
	for _, o := range s.objects()[:4] {
		s.Create(o)
	}
	s.Eventually(s.Condition(s.controlPlane, infrav1.ProvisionedCondition)).Should(And(
		HavePrefix("False "+infrav1.WaitingForObjectReason), ContainSubstring("no worker template yet")))
	return s.backup()
}

// TestOldBackup restores a backup from before the creation of the portal cluster. This portal cannot list clusters. The provider asks the
// user what to do, and creates no second cluster.
func TestOldBackup(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	backup := s.saveWhileItWaits()
	s.Create(s.deployment)
	s.Create(s.template)
	s.settled(2)
	nodes := uids(s.Nodes())
	s.retire()

	s.compose()
	s.controlPlane = backup
	for _, o := range s.objects()[1:] {
		s.Create(o)
	}
	s.Eventually(s.Condition(s.controlPlane, infrav1.AvailableCondition)).Should(And(
		HavePrefix("False "+infrav1.RestoredObjectReason), ContainSubstring("Look for a cluster named %q", backup.Spec.ClusterName), ContainSubstring("set spec.clusterID")))
	s.Consistently(s.Changes, 10*time.Second).Should(Equal([]string{createRequest}))
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) {
		cp.Spec.ClusterID, cp.Spec.DeletionPolicy = s.PortalClusters()[0].ID, infrav1.DeletionPolicyDelete
	})
	s.settled(2)
	s.Expect(uids(s.Nodes())).To(ConsistOf(nodes))
	s.end()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, "DELETE {cluster_id} 202"}))
}

// TestOldBackupAtAPortalThatLists does the same at a portal that lists clusters by name. The provider still asks the user.
func TestOldBackupAtAPortalThatLists(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	portal, err := emulator.New(emulator.Options{ListClusters: true, Durations: emulator.Durations{Create: time.Second}})
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(portal.Close)
	s.Expect(portal.Listen("127.0.0.1:0")).To(Succeed())
	s.secret.StringData[infrav1.IdentityEmail], s.secret.StringData[infrav1.IdentityPassword] = portal.Credentials()
	s.secret.StringData[infrav1.IdentityBaseURL], s.secret.StringData[infrav1.IdentityCABundle] = portal.URL(), string(portal.CAPEM())
	posts := func() int {
		return len(slices.DeleteFunc(portal.RequestLog(), func(e emulator.LogEntry) bool {
			return !e.IsRequest() || e.Method != "POST" || e.Route != routeClusters
		}))
	}

	backup := s.saveWhileItWaits()
	s.Create(s.deployment)
	s.Create(s.template)
	s.Eventually(s.Condition(s.controlPlane, infrav1.ProvisionedCondition)).Should(HavePrefix("True"))
	s.retire()

	s.compose()
	s.controlPlane = backup
	for _, o := range s.objects()[1:] {
		s.Create(o)
	}
	s.Eventually(s.Condition(s.controlPlane, infrav1.ProvisionedCondition)).Should(HavePrefix("False " + infrav1.RestoredObjectReason))
	s.Expect(posts()).To(Equal(1))
	s.Expect(s.live().Spec.ClusterID).To(BeEmpty())
	s.deleteAll()
	s.awaitDeletion()
	s.Expect(portal.Clusters()).To(HaveLen(1), "the provider does not delete a cluster that the object does not name")
}

// TestChosenNameIsKept makes the first creation of a cluster with a chosen name fail. The second creation uses the same name, so the user
// can apply the manifest again.
func TestChosenNameIsKept(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.strike(emulator.Fault{Method: "POST", Path: routeClusters, Job: emulator.JobFails, Count: 1})
	s.controlPlane.Spec.ClusterName = "chosen"
	s.apply()
	s.settled(2)
	s.Expect(s.PortalClusters()[0].Name).To(Equal("chosen"))
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterName = "chosen" })
	s.Expect(s.asked("POST kubernetes-clusters")).To(Equal(2))
	s.end()
}
