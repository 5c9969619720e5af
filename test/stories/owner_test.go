// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// In this story two control planes name the same portal cluster. test/ownership has clones and restores from backups.

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
