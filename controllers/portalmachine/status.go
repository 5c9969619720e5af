// SPDX-License-Identifier: Apache-2.0

package portalmachine

import (
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// updateStatus says how the claim stands. A claim that was bound once stays provisioned: the contract does not take it
// back, and a node that is replaced is a new binding of the same claim.
func updateStatus(claim *infrav1.PortalMachine, machine *clusterv1.Machine) {
	o := outcome.WaitFor(0, infrav1.WaitingForNodeReason, "no worker node is free for this Machine; condition WorkersReady of the PortalControlPlane says what that waits for")
	switch {
	case machine == nil:
		o = outcome.WaitFor(0, infrav1.WaitingForMachineReason, "no Machine owns this object")
	case claims.IsReleased(claim.Spec.ProviderID) && machine.DeletionTimestamp.IsZero():
		// restored or moved: nobody deletes the Machine any more, and it waits for a node as if it were new
	case claims.IsReleased(claim.Spec.ProviderID):
		o = outcome.WaitFor(0, infrav1.ReleasedReason, "the Machine is being deleted and has no node any more")
		if claim.Spec.Node != nil { // it had one, even if a restored object has lost its status: only then core takes the providerID over
			claim.Status.Initialization.Provisioned = ptr.To(true)
		}
	case claim.Spec.Node != nil:
		o = outcome.DoneBecause(infrav1.BoundReason, "")
		claim.Status.Initialization.Provisioned = ptr.To(true)
		claim.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: claim.Spec.Node.Name}}
	}
	outcome.ReportNotPaused(claim)
	outcome.Report(claim, infrav1.ReadyCondition, o)
	claim.Status.ObservedGeneration = claim.Generation
	outcome.ReportDeleting(claim, "")
}
