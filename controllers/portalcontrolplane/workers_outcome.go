// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// workersOutcome compares Machines with worker nodes, and reports what is being done.
func (s *scope) workersOutcome() outcome.Outcome {
	switch {
	case s.Op().Lost() && s.Op().Type == operation.Scale:
		return outcome.WaitFor(s.Op().ResendIn(), infrav1.AnswerLostReason, "the portal's answer to the %s was lost. %d worker nodes exist", s.Op(), len(s.plan.Present))
	case s.Op().Is(operation.Scale):
		reason := infrav1.ScalingUpReason
		if operationOn(s.Op()) == claims.RemovingNodes {
			reason = infrav1.ScalingDownReason
		}
		return outcome.WaitFor(0, reason, "waiting for the portal to finish the %s (job %s)", s.Op(), s.Op().JobID)
	case len(s.plan.Draining) > 0:
		return outcome.WaitFor(0, infrav1.DrainingReason, "draining %d Machines before the portal removes workers: %s. If this takes long, look "+
			"at their Deleting condition", len(s.plan.Draining), joinNames(s.plan.Draining))
	case len(s.plan.DrainingNodes) > 0:
		return outcome.WaitFor(0, infrav1.DrainingReason, "draining %d worker nodes without a Machine before the portal removes workers: %s",
			len(s.plan.DrainingNodes), s.drainProgress())
	case s.Op() != nil && (len(s.plan.Present) != s.desired.sum || s.plan.Unbound > 0):
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "waiting for the portal to finish the %s before workers are reconciled", s.Op())
	}
	return s.countOutcome()
}

// drainProgress describes how far the provider's own drains are.
func (s *scope) drainProgress() string {
	var all []string
	for _, name := range slices.Sorted(slices.Values(s.plan.DrainingNodes)) {
		if waits := s.drains[name]; waits != "" {
			name += " (" + waits + ")"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// countOutcome compares the numbers of Machines and nodes.
func (s *scope) countOutcome() outcome.Outcome {
	workers := len(s.plan.Present)
	switch {
	case len(s.plan.Mismatched) > 0:
		return outcome.StallFor(0, infrav1.TemplateNotHonoredReason, "Machines %s ask for other workers than the portal cluster has (offering %s, "+
			"SSH key pair %s), and the portal cannot change that. Revert the template of their MachineDeployment, whose roll-out waits until then",
			joinNames(s.plan.Mismatched), s.Record.Workers.ServiceOfferingID, s.Record.Workers.SSHKeyPair)
	case s.mismatchedPool() != "":
		return outcome.StallFor(0, infrav1.TemplateNotHonoredReason, "PortalMachinePool %s asks for other workers than the portal cluster has (offering %s, "+
			"SSH key pair %s), and the portal cannot change that. Delete its MachinePool, and create it again with these", s.mismatchedPool(),
			s.Record.Workers.ServiceOfferingID, s.Record.Workers.SSHKeyPair)
	case len(s.desired.collected) > 0:
		return outcome.StallFor(0, infrav1.DeletionNotConfirmedReason, "the garbage collector may have deleted these objects, because their owner was an "+
			"earlier Cluster %s: %s. Their replicas count until they are gone. Then create them again", s.Cluster.Name, joinNames(s.desired.collected))
	case s.desired.objects == 0:
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no MachineDeployment or MachinePool asks for workers, so %d worker nodes stay. To use "+
			"them, create a MachineDeployment. To have none, create one with 0 replicas", s.desired.sum)
	case workers < s.desired.sum:
		return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "%d of %d worker nodes exist. Waiting for the others to join", workers, s.desired.sum)
	case s.plan.Unbound+s.plan.Missing > 0:
		return s.unboundOutcome()
	case s.plan.Free > 0:
		return s.freeOutcome(workers)
	case len(s.plan.NotReady) > 0 && s.Op() == nil:
		return outcome.WaitFor(0, infrav1.NodesNotReadyReason, "worker nodes %s are not Ready, and the portal does not repair nodes. Look at them "+
			"at the portal, or ask its support", joinNames(s.plan.NotReady))
	case len(s.plan.Drained) > 0:
		return outcome.WaitFor(0, infrav1.ScalingDownReason, "worker nodes %s are drained and wait until the portal accepts fewer workers", joinNames(s.plan.Drained))
	case workers > s.desired.sum:
		return outcome.WaitFor(0, infrav1.ScalingDownReason, "%d worker nodes exist, but %d are wanted. Waiting for core to delete Machines", workers, s.desired.sum)
	}
	return s.readyOutcome()
}

// freeOutcome reports why nodes have no Machine.
func (s *scope) freeOutcome(workers int) outcome.Outcome {
	switch {
	case s.plan.Free == s.desired.stays:
		return outcome.DoneWith("one worker node stays without a Machine, because the portal refuses a cluster without workers. To ask it again, raise the replicas above 1 and lower them")
	case s.adopted():
		return outcome.WaitFor(0, infrav1.NodesUnclaimedReason, "%d of %d worker nodes of the adopted cluster belong to no Machine. The provider does "+
			"not remove them. Raise the replicas until each node has a Machine. After that, lower the replicas to remove nodes", s.plan.Free, workers)
	}
	return outcome.WaitFor(0, infrav1.NodesUnclaimedReason, "%d of %d worker nodes belong to no Machine yet", s.plan.Free, workers)
}

// unboundOutcome reports what Machines without a node, or the pool, wait for, although enough nodes exist.
func (s *scope) unboundOutcome() outcome.Outcome {
	if i := slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return tainted(&n, uninitializedTaint) }); i >= 0 {
		return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "the portal's cloud controller has not initialized worker node %s yet, which has the taint %s. "+
			"If this lasts, ask the portal's support", s.nodes[i].Name, uninitializedTaint)
	}
	if s.plan.Unbound == 0 {
		return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "the pool waits for %d Ready worker nodes that no Machine holds", s.plan.Missing)
	}
	return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "%d Machines wait for a Ready worker node", s.plan.Unbound)
}

// readyOutcome reports that every Machine has a node, and whether the cluster autoscaler can remove nodes.
func (s *scope) readyOutcome() outcome.Outcome {
	if s.desired.autoscaled && claims.Order(s.expectedOrder().Order) == claims.Random {
		return outcome.DoneWith("the order in which the portal removes workers is not known, so the cluster autoscaler is kept " +
			"from removing nodes. If the portal has an order, set spec.removalOrder")
	}
	return outcome.Outcome{}
}

func joinNames(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ", ") }
