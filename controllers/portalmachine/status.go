// SPDX-License-Identifier: Apache-2.0

package portalmachine

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// updateStatus sets the status of the claim. A claim that was bound once stays provisioned, as the contract requires. If its node
// is replaced, the same claim is bound again.
func updateStatus(claim *infrav1.PortalMachine, machine *clusterv1.Machine) {
	o := outcome.WaitFor(0, infrav1.WaitingForNodesReason, "no worker node is free for this Machine. See condition WorkersReady of the PortalControlPlane for the cause")
	switch {
	case machine == nil:
		o = outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no Machine owns this object. Core sets the owner")
	case claims.IsReleased(claim.Spec.ProviderID) && machine.DeletionTimestamp.IsZero():
		// Restored or moved: the Machine is not being deleted any more, and waits for a node like a new one.
	case claims.IsReleased(claim.Spec.ProviderID):
		o = outcome.WaitFor(0, infrav1.ReleasedReason, "the Machine is being deleted and has given its node back")
		if claim.Spec.Node != nil { // it had a node, even if a restored object has lost its status. Core copies the providerID only if provisioned is true
			claim.Status.Initialization.Provisioned = ptr.To(true)
		}
	case claim.Spec.Node != nil:
		o = outcome.Outcome{}
		claim.Status.Initialization.Provisioned = ptr.To(true)
		claim.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: claim.Spec.Node.Name}}
	}
	outcome.ReportNotPaused(claim)
	outcome.Report(claim, infrav1.ReadyCondition, o)
	claim.Status.ObservedGeneration = claim.Generation
	outcome.ReportDeleting(claim, "")
}
