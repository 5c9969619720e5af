// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestPlaceIsCorrected creates a Cluster with a misspelt VPC, in a zone without capacity. The user corrects both in place, and the number
// of control nodes with them. The corrected VPC does not exist, so the provider creates it. The portal gets one cluster, where the corrected
// objects say. After that, nothing of this can be changed.
func TestPlaceIsCorrected(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.portalCluster.Spec.VPC.Name = "defautl"
	s.strike(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Code: emulator.CodeInsufficientCapacity})
	s.apply()
	s.Eventually(s.Condition(s.portalCluster, infrav1.ReadyCondition)).Should(And(
		HavePrefix("False Refused"), ContainSubstring(`0 VPCs of the portal account are named "defautl"`), HaveSuffix("correct spec.vpc")))
	suite.Change(s.Fixture, s.portalCluster, func(pc *infrav1.PortalCluster) { pc.Spec.VPC = infrav1.PortalVPC{Name: "new", Create: ptr.To(true)} })
	s.Eventually(s.Condition(s.controlPlane, infrav1.ProvisionedCondition)).Should(And(HavePrefix("False InsufficientCapacity"),
		ContainSubstring("(requestId req-"), HaveSuffix("To use another zone, set spec.zoneID of PortalCluster story")))
	t.Log(s.Condition(s.controlPlane, infrav1.ProvisionedCondition)())
	uid := s.controlPlane.UID
	suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Replicas = ptr.To[int32](3) })
	suite.Change(s.Fixture, s.portalCluster, func(pc *infrav1.PortalCluster) { pc.Spec.ZoneID = "zone-2" })
	s.Eventually(func() *operation.Operation {
		s.Get(s.controlPlane)
		state, err := operation.Load(s.controlPlane)
		s.Expect(err).NotTo(HaveOccurred())
		return state.Last
	}).Should(HaveField("Record.ZoneID", "zone-2"), "a request that was on its way asks for the first zone")
	s.Box.Portal.RemoveFault(s.Namespace) // the other zone has room
	s.settled(2)
	s.Get(s.controlPlane)
	s.Get(s.portalCluster)
	t.Log(s.Condition(s.controlPlane, infrav1.ProvisionedCondition)(), s.portalCluster.Status.ZoneID, s.PortalClusters()[0].ZoneID)
	s.Expect(s.PortalClusters()).To(HaveExactElements(And(HaveField("ZoneID", "zone-2"), HaveField("ControlNodes", 3))))
	s.Expect(s.controlPlane.UID).To(Equal(uid), "the same object")
	s.Expect(s.Changes()).To(ContainElement("POST vpcs 202"))
	s.Expect(s.portalCluster.Status.ZoneID).To(Equal("zone-2"))
	for says, change := range map[string]func() error{
		"spec.zoneID cannot be changed":   func() error { return s.try(s.portalCluster, `{"spec": {"zoneID": "zone-1"}}`) },
		"spec.vpc cannot be changed":      func() error { return s.try(s.portalCluster, `{"spec": {"vpc": {"name": "another"}}}`) },
		"spec.network cannot be changed":  func() error { return s.try(s.portalCluster, `{"spec": {"network": {"id": "network-1"}}}`) },
		"spec.replicas cannot be changed": func() error { return s.try(s.controlPlane, `{"spec": {"replicas": 1}}`) },
	} {
		s.Expect(change()).To(MatchError(ContainSubstring(says)))
	}
	s.end()
}

// try sends a merge patch as a dry run.
func (s *story) try(o client.Object, patch string) error {
	o, _ = o.DeepCopyObject().(client.Object)
	return s.Box.Client.Patch(s.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
}
