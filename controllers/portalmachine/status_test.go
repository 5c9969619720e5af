// SPDX-License-Identifier: Apache-2.0

package portalmachine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
)

func claim(change ...func(*infrav1.PortalMachine)) *infrav1.PortalMachine {
	c := &infrav1.PortalMachine{}
	for _, f := range change {
		f(c)
	}
	return c
}

func bound(c *infrav1.PortalMachine) {
	c.Spec.ProviderID, c.Spec.Node = "portal://id/n1", &infrav1.BoundNode{Name: "n1", UID: "u1"}
}

// released keeps the name of the node, as a release leaves it.
func released(c *infrav1.PortalMachine) {
	bound(c)
	c.Spec.ProviderID = claims.ReleasedProviderID("id", "m1")
}

func deleting(c *infrav1.PortalMachine) {
	c.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
}

func provisioned(c *infrav1.PortalMachine) { c.Status.Initialization.Provisioned = ptr.To(true) }

func TestUpdateStatus(t *testing.T) {
	machine, going := &clusterv1.Machine{}, &clusterv1.Machine{}
	going.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
	n1 := []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: "n1"}}
	tests := map[string]struct {
		claim       *infrav1.PortalMachine
		machine     *clusterv1.Machine
		ready       metav1.ConditionStatus
		reason      string
		provisioned bool
		addresses   []clusterv1.MachineAddress
		deleting    metav1.ConditionStatus
	}{
		"no Machine yet":         {claim(), nil, metav1.ConditionFalse, infrav1.WaitingForObjectReason, false, nil, metav1.ConditionFalse},
		"no node yet":            {claim(), machine, metav1.ConditionFalse, infrav1.WaitingForNodesReason, false, nil, metav1.ConditionFalse},
		"bound":                  {claim(bound), machine, metav1.ConditionTrue, infrav1.ReadyReason, true, n1, metav1.ConditionFalse},
		"released":               {claim(provisioned, released, deleting), going, metav1.ConditionFalse, infrav1.ReleasedReason, true, nil, metav1.ConditionTrue},
		"released, status lost":  {claim(released), going, metav1.ConditionFalse, infrav1.ReleasedReason, true, nil, metav1.ConditionFalse},
		"released, Machine kept": {claim(released), machine, metav1.ConditionFalse, infrav1.WaitingForNodesReason, false, nil, metav1.ConditionFalse},
		"bound, being deleted":   {claim(bound, deleting), machine, metav1.ConditionTrue, infrav1.ReadyReason, true, n1, metav1.ConditionTrue},
		"its node is gone":       {claim(provisioned), machine, metav1.ConditionFalse, infrav1.WaitingForNodesReason, true, nil, metav1.ConditionFalse},
		"never bound, deleted":   {claim(deleting), machine, metav1.ConditionFalse, infrav1.WaitingForNodesReason, false, nil, metav1.ConditionTrue},
		"bound, but whose is it": {claim(bound), nil, metav1.ConditionFalse, infrav1.WaitingForObjectReason, false, nil, metav1.ConditionFalse},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			updateStatus(test.claim, test.machine)
			ready := conditions.Get(test.claim, infrav1.ReadyCondition)
			if ready == nil || ready.Status != test.ready || ready.Reason != test.reason {
				t.Errorf("Ready %+v, want %s %s", ready, test.ready, test.reason)
			}
			if test.ready == metav1.ConditionFalse && ready.Message == "" {
				t.Error("not ready, and nothing said about it")
			}
			if got := ptr.Deref(test.claim.Status.Initialization.Provisioned, false); got != test.provisioned {
				t.Errorf("provisioned %v", got)
			}
			if diff := cmp.Diff(test.addresses, test.claim.Status.Addresses); diff != "" {
				t.Error(diff)
			}
			if d := conditions.Get(test.claim, clusterv1.DeletingCondition); d == nil || d.Status != test.deleting {
				t.Errorf("Deleting %+v, want %s", d, test.deleting)
			}
			first := test.claim.Status.DeepCopy()
			if updateStatus(test.claim, test.machine); !cmp.Equal(*first, test.claim.Status) {
				t.Errorf("a second pass changes the status: %s", cmp.Diff(*first, test.claim.Status))
			}
		})
	}
}

// TestAnotherNode: a claim that moves to another node reports that node's address.
func TestAnotherNode(t *testing.T) {
	c := claim(bound)
	updateStatus(c, &clusterv1.Machine{})
	c.Spec.Node = &infrav1.BoundNode{Name: "n2", UID: "u2"}
	updateStatus(c, &clusterv1.Machine{})
	if got := c.Status.Addresses; len(got) != 1 || got[0].Address != "n2" {
		t.Errorf("addresses %v", got)
	}
}
