// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Merge patches of a PortalCluster.
const (
	otherVPC  = `{"spec": {"vpc": {"name": "another"}}}`
	otherID   = `{"spec": {"vpc": {"name": null, "create": null, "id": "vpc-2"}}}`
	otherZone = `{"spec": {"zoneID": "zone-2"}}`
	otherCIDR = `{"spec": {"network": {"cidr": "10.2.0.0/24"}}}`
	networkID = `{"spec": {"network": {"cidr": null, "id": "network-2"}}}`
	noNetwork = `{"spec": {"network": null}}`
)

// TestPlaceOfWhatMayExist checks when the API server accepts a correction of the place, for what the provider can report.
func TestPlaceOfWhatMayExist(t *testing.T) {
	f := newFixture(t)
	ready := func(reason string) infrav1.PortalClusterStatus {
		return infrav1.PortalClusterStatus{Conditions: []metav1.Condition{condition(infrav1.NetworkReadyCondition, metav1.ConditionFalse, reason)}}
	}
	created := ready(infrav1.ReadyReason)
	created.NetworkID = "network-1"
	cidr, byID, made := &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"}, &infrav1.PortalNetwork{ID: "network-1"}, ptr.To(true)
	for title, test := range map[string]struct {
		network  *infrav1.PortalNetwork
		create   *bool // the VPC
		status   infrav1.PortalClusterStatus
		accepted []string
		refused  []string
	}{
		"nothing was reported":        {cidr, nil, infrav1.PortalClusterStatus{}, []string{otherZone, networkID}, []string{otherCIDR, noNetwork}},
		"the network is refused":      {cidr, nil, ready(infrav1.RefusedReason), []string{otherZone, networkID, otherCIDR, noNetwork}, nil},
		"the job of the network runs": {cidr, nil, ready(infrav1.CreatingReason), []string{otherZone, networkID}, []string{otherCIDR, noNetwork}},
		"its answer was lost":         {cidr, nil, ready(infrav1.OutcomeUnknownReason), []string{otherZone, networkID}, []string{otherCIDR, noNetwork}},
		"it was created":              {cidr, nil, created, []string{otherZone, networkID}, []string{otherCIDR, noNetwork}},
		"a network by its id":         {byID, nil, created, []string{otherZone, noNetwork}, nil},
		"a VPC by its name":           {nil, nil, ready(infrav1.ReadyReason), []string{otherVPC, otherID}, nil},
		"the cluster may exist": {
			cidr, nil, infrav1.PortalClusterStatus{ZoneID: "zone-1"}, []string{networkID}, []string{otherZone, otherCIDR, noNetwork},
		},
		"the VPC is refused":       {nil, made, ready(infrav1.RefusedReason), []string{otherZone, otherVPC, otherID}, nil},
		"the job of the VPC runs":  {nil, made, ready(infrav1.CreatingReason), []string{otherZone, otherID}, []string{otherVPC}},
		"the VPC's answer is lost": {nil, made, ready(infrav1.AnswerLostReason), []string{otherZone, otherID}, []string{otherVPC}},
		"the VPC was created":      {nil, made, infrav1.PortalClusterStatus{VPCID: "vpc-1"}, []string{otherZone, otherID}, []string{otherVPC}},
	} {
		pc := f.objects.PortalCluster.DeepCopy()
		pc.Spec.Network, pc.Spec.VPC.Create = test.network, test.create
		f.reported(pc, func() { pc.Status = test.status })
		f.check(title, pc, test.accepted, test.refused)
	}
}

// TestNodesOfWhatMayExist checks when the number of control nodes and the parameters of workers can still change.
func TestNodesOfWhatMayExist(t *testing.T) {
	f := newFixture(t)
	running := func(status metav1.ConditionStatus, reason string) infrav1.PortalControlPlaneStatus {
		return infrav1.PortalControlPlaneStatus{Conditions: []metav1.Condition{condition(infrav1.OperationInProgressCondition, status, reason)}}
	}
	patches := []string{`{"spec": {"replicas": 3}}`, `{"spec": {"workers": {"serviceOfferingID": "large"}}}`}
	for title, test := range map[string]struct {
		id                string
		status            infrav1.PortalControlPlaneStatus
		accepted, refused []string
	}{
		"nothing was reported":    {"", infrav1.PortalControlPlaneStatus{}, patches, nil},
		"the creation is refused": {"", running(metav1.ConditionFalse, infrav1.IdleReason), patches, nil},
		"its job runs":            {"", running(metav1.ConditionTrue, infrav1.CreatingReason), nil, patches},
		"its answer was lost":     {"", running(metav1.ConditionTrue, infrav1.OutcomeUnknownReason), nil, patches},
		"the cluster exists":      {"cluster-1", running(metav1.ConditionFalse, infrav1.IdleReason), nil, patches},
	} {
		cp := f.objects.ControlPlane.DeepCopy()
		cp.Spec.ClusterID, cp.Spec.Workers = test.id, &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
		f.reported(cp, func() { cp.Status = test.status })
		f.check(title, cp, test.accepted, test.refused)
	}
}

// TestClusterIDOfWhatIsGone checks when spec.clusterID can name another portal cluster: when the provider has reported that the one it names is
// gone. It can never be removed.
func TestClusterIDOfWhatIsGone(t *testing.T) {
	f := newFixture(t)
	another := []string{`{"spec": {"clusterID": "cluster-2"}}`}
	for title, test := range map[string]struct {
		provisioned       metav1.Condition
		accepted, refused []string
	}{
		"the cluster is gone": {condition(infrav1.ProvisionedCondition, metav1.ConditionFalse, infrav1.PortalClusterGoneReason), another, nil},
		"the cluster runs":    {condition(infrav1.ProvisionedCondition, metav1.ConditionTrue, infrav1.ReadyReason), nil, another},
	} {
		cp := f.objects.ControlPlane.DeepCopy()
		cp.Spec.ClusterID = "cluster-1"
		f.reported(cp, func() { cp.Status.Conditions = []metav1.Condition{test.provisioned} })
		f.check(title, cp, test.accepted, test.refused)
		f.Expect(f.merge(cp, `{"spec": {"clusterID": null}}`)).To(MatchError(ContainSubstring("clusterID cannot be removed")), title)
	}
}

// reported creates an object with a status.
func (f *fixture) reported(o client.Object, status func()) {
	f.Helper()
	o.SetName("")
	o.SetGenerateName("place-")
	f.create(o)
	f.Expect(f.report(box.Client, o, status)).To(Succeed())
}

// check tries the patches.
func (f *fixture) check(title string, o client.Object, accepted, refused []string) {
	f.Helper()
	for _, patch := range accepted {
		f.Expect(f.merge(o, patch)).To(Succeed(), "%s: %s", title, patch)
	}
	for _, patch := range refused {
		f.Expect(f.merge(o, patch)).To(MatchError(ContainSubstring("cannot be changed")), "%s: %s", title, patch)
	}
}
