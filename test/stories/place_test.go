// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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

// TestPlaceOfWhatMayExist checks when the API server accepts a correction, for what the provider can report. The objects are paused.
func TestPlaceOfWhatMayExist(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	ready := func(reason string) infrav1.PortalClusterStatus {
		return infrav1.PortalClusterStatus{Conditions: []metav1.Condition{{
			Type: infrav1.NetworkReadyCondition, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.Now(),
		}}}
	}
	running := func(status metav1.ConditionStatus, reason string) infrav1.PortalControlPlaneStatus {
		return infrav1.PortalControlPlaneStatus{Conditions: []metav1.Condition{{
			Type: infrav1.OperationInProgressCondition, Status: status, Reason: reason, LastTransitionTime: metav1.Now(),
		}}}
	}
	created := ready(infrav1.ReadyReason)
	created.NetworkID = "network-1"
	const vpc, vpcID = `{"spec": {"vpc": {"name": "another"}}}`, `{"spec": {"vpc": {"name": null, "create": null, "id": "vpc-2"}}}`
	const zone, otherCIDR, noNetwork, id = `{"spec": {"zoneID": "zone-2"}}`, `{"spec": {"network": {"cidr": "10.2.0.0/24"}}}`,
		`{"spec": {"network": null}}`, `{"spec": {"network": {"cidr": null, "id": "network-2"}}}`
	for title, test := range map[string]struct {
		network  *infrav1.PortalNetwork
		status   infrav1.PortalClusterStatus
		accepted []string
		refused  []string
	}{
		"nothing was reported":        {cidr, infrav1.PortalClusterStatus{}, []string{zone, id}, []string{otherCIDR, noNetwork}},
		"the network is refused":      {cidr, ready(infrav1.RefusedReason), []string{zone, id, otherCIDR, noNetwork}, nil},
		"the job of the network runs": {cidr, ready(infrav1.CreatingReason), []string{zone, id}, []string{otherCIDR, noNetwork}},
		"its answer was lost":         {cidr, ready(infrav1.OutcomeUnknownReason), []string{zone, id}, []string{otherCIDR, noNetwork}},
		"it was created":              {cidr, created, []string{zone, id}, []string{otherCIDR, noNetwork}},
		"a network by its id":         {&infrav1.PortalNetwork{ID: "network-1"}, created, []string{zone, noNetwork}, nil},
		"a VPC by its name":           {nil, ready(infrav1.ReadyReason), []string{vpc, vpcID}, nil},
		"the cluster may exist":       {cidr, infrav1.PortalClusterStatus{ZoneID: "zone-1"}, []string{id}, []string{zone, otherCIDR, noNetwork}},
	} {
		t.Run(title, func(t *testing.T) {
			pc := s.portalCluster.DeepCopy()
			pc.Spec.Network = test.network
			s.createPaused(pc, func() { pc.Status = test.status })
			check(t, s, pc, test.accepted, test.refused)
		})
	}
	const three, large = `{"spec": {"replicas": 3}}`, `{"spec": {"workers": {"serviceOfferingID": "large"}}}`
	for title, test := range map[string]struct {
		status   infrav1.PortalClusterStatus
		accepted []string
		refused  []string
	}{
		"the VPC is refused":       {ready(infrav1.RefusedReason), []string{zone, vpc, vpcID}, nil},
		"the job of the VPC runs":  {ready(infrav1.CreatingReason), []string{zone, vpcID}, []string{vpc}},
		"the VPC's answer is lost": {ready(infrav1.AnswerLostReason), []string{zone, vpcID}, []string{vpc}},
		"the VPC was created":      {infrav1.PortalClusterStatus{VPCID: "vpc-1"}, []string{zone, vpcID}, []string{vpc}},
	} {
		t.Run(title, func(t *testing.T) {
			pc := s.portalCluster.DeepCopy()
			pc.Spec.VPC.Create = ptr.To(true)
			s.createPaused(pc, func() { pc.Status = test.status })
			check(t, s, pc, test.accepted, test.refused)
		})
	}
	for title, test := range map[string]struct {
		id       string
		status   infrav1.PortalControlPlaneStatus
		accepted bool
	}{
		"nothing was reported":    {"", infrav1.PortalControlPlaneStatus{}, true},
		"the creation is refused": {"", running(metav1.ConditionFalse, infrav1.IdleReason), true},
		"its job runs":            {"", running(metav1.ConditionTrue, infrav1.CreatingReason), false},
		"its answer was lost":     {"", running(metav1.ConditionTrue, infrav1.OutcomeUnknownReason), false},
		"the cluster exists":      {"cluster-1", running(metav1.ConditionFalse, infrav1.IdleReason), false},
	} {
		t.Run("nodes: "+title, func(t *testing.T) {
			cp := s.controlPlane.DeepCopy()
			cp.Spec.Replicas, cp.Spec.ClusterID = ptr.To[int32](1), test.id
			cp.Spec.Workers = &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
			s.createPaused(cp, func() { cp.Status = test.status })
			if test.accepted {
				check(t, s, cp, []string{three, large}, nil)
			} else {
				check(t, s, cp, nil, []string{three, large})
			}
		})
	}
}

// TestClusterIDOfWhatIsGone checks when spec.clusterID can name another portal cluster: when the provider has reported that the one it names is
// gone. It can never be removed. The objects are paused.
func TestClusterIDOfWhatIsGone(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	const another = `{"spec": {"clusterID": "cluster-2"}}`
	for title, test := range map[string]struct {
		status           metav1.ConditionStatus
		reason           string
		accepted, refuse []string
	}{
		"the cluster is gone": {metav1.ConditionFalse, infrav1.PortalClusterGoneReason, []string{another}, nil},
		"the cluster runs":    {metav1.ConditionTrue, infrav1.ReadyReason, nil, []string{another}},
	} {
		t.Run(title, func(t *testing.T) {
			cp := s.controlPlane.DeepCopy()
			cp.Spec.ClusterID = "cluster-1"
			s.createPaused(cp, func() {
				cp.Status.Conditions = []metav1.Condition{{
					Type: infrav1.ProvisionedCondition, Status: test.status, Reason: test.reason, LastTransitionTime: metav1.Now(),
				}}
			})
			check(t, s, cp, test.accepted, test.refuse)
			NewWithT(t).Expect(s.try(cp, `{"spec": {"clusterID": null}}`)).To(MatchError(ContainSubstring("clusterID cannot be removed")))
		})
	}
}

var cidr = &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"}

// createPaused creates an object that the provider leaves alone, with a status.
func (s *story) createPaused(o client.Object, status func()) {
	s.Helper()
	o.SetName("")
	o.SetGenerateName("place-")
	o.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	s.Create(o)
	before, _ := o.DeepCopyObject().(client.Object)
	status()
	s.Expect(s.Box.Client.Status().Patch(s.Context(), o, client.MergeFrom(before))).To(Succeed())
}

// check tries the patches.
func check(t *testing.T, s *story, o client.Object, accepted, refused []string) {
	t.Helper()
	g := NewWithT(t)
	for _, patch := range accepted {
		g.Expect(s.try(o, patch)).To(Succeed(), patch)
	}
	for _, patch := range refused {
		g.Expect(s.try(o, patch)).To(MatchError(ContainSubstring("cannot be changed")), patch)
	}
}
