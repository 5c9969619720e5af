// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// outcome compares Machines with worker nodes, and reports what is being done. drains is what drains wait for, by Machine or Node.
func (d *decision) outcome(p *pass.Pass, drains map[string]string) outcome.Outcome {
	switch {
	case p.Op().Lost() && p.Op().Type == operation.Scale:
		return outcome.WaitFor(p.Op().ResendIn(), infrav1.AnswerLostReason, "the portal's answer to the %s was lost. %d worker nodes exist", p.Op(), len(d.plan.Present))
	case p.Op().Is(operation.Scale):
		reason := infrav1.ScalingUpReason
		if activityOf(p.Op()) == claims.RemovingNodes {
			reason = infrav1.ScalingDownReason
		}
		return outcome.WaitFor(0, reason, "waiting for the portal to finish the %s (job %s)", p.Op(), p.Op().JobID)
	case len(d.plan.Draining) > 0:
		return outcome.WaitFor(0, infrav1.DrainingReason, "draining %s before the portal removes workers: %s. If this takes long, look "+
			"at condition Deleting of each", outcome.Count(len(d.plan.Draining), "Machine"), drainProgress(d.plan.Draining, drains))
	case len(d.plan.DrainingNodes) > 0:
		return outcome.WaitFor(0, infrav1.DrainingReason, "draining %s before the portal removes workers: %s",
			outcome.Count(len(d.plan.DrainingNodes), "worker node"), drainProgress(d.plan.DrainingNodes, drains))
	case p.Op() != nil && (len(d.plan.Present) != d.plan.Desired || d.plan.Unbound > 0):
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "waiting for the portal to finish the %s before workers are reconciled", p.Op())
	case d.desired.ending:
		return outcome.BlockedBy(infrav1.DeletingReason, "namespace %s is being deleted, so the cluster is not scaled", p.Cluster.Namespace)
	}
	o := d.countOutcome(p)
	for _, note := range append(d.desired.notes[:len(d.desired.notes):len(d.desired.notes)], d.miscounted(p)...) {
		o = o.With(note)
	}
	return o
}

// miscounted reports that an adopted portal cluster has another number of control nodes than spec.replicas, which cannot be changed any more
// and is what the object counts. The portal does not return the number, so only Nodes can show it.
func (d *decision) miscounted(p *pass.Pass) []string {
	controls, _ := d.nodes.controls()
	replicas := int(ptr.Deref(p.ControlPlane.Spec.Replicas, 1))
	if !p.Record.TakenOver || p.Op() != nil || controls == 0 || controls == replicas {
		return nil
	}
	return []string{fmt.Sprintf("the adopted cluster has %s, but spec.replicas is %d, which the counters of this object follow. "+
		"To correct them, delete the Cluster with deletionPolicy Retain, and adopt the portal cluster with replicas %d", outcome.Count(controls, "control node"), replicas, controls)}
}

// drainProgress describes how far drains are.
func drainProgress(names []string, drains map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if waits := drains[name]; waits != "" {
			name += " (" + waits + ")"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// coreWaits returns what core waits for before the Machine counts as drained, as far as its condition Deleting does not say what to do: Pods
// that cannot be evicted, the end of a pause, or hooks of other controllers.
func coreWaits(m *clusterv1.Machine) string {
	hooks := othersHooks(m)
	switch {
	case annotations.HasPaused(m):
		return "paused: remove its annotation " + clusterv1.PausedAnnotation
	case len(hooks) > 0 && conditions.GetReason(m, clusterv1.MachineDeletingCondition) == clusterv1.MachineDeletingWaitingForPreTerminateHookReason:
		return "waits for the controller of " + strings.Join(hooks, ", ")
	}
	return drain.BlockedByCore(m)
}

// countOutcome compares the numbers of Machines and nodes.
func (d *decision) countOutcome(p *pass.Pass) outcome.Outcome {
	workers := len(d.plan.Present)
	switch {
	case len(d.plan.Mismatched) > 0:
		return outcome.StallFor(0, infrav1.TemplateNotHonoredReason, "Machines %s ask for other workers than the portal cluster has (offering %s, "+
			"SSH key pair %s), and the portal cannot change that. Revert the template of their MachineDeployment, whose roll-out waits until then",
			outcome.Names(d.plan.Mismatched), p.Record.Workers.ServiceOfferingID, p.Record.Workers.SSHKeyPair)
	case d.members.pool.mismatched(p.Record.Workers):
		return outcome.StallFor(0, infrav1.TemplateNotHonoredReason, "PortalMachinePool %s asks for other workers than the portal cluster has (offering %s, "+
			"SSH key pair %s), and the portal cannot change that. Delete its MachinePool, and create it again with these", d.members.pool.infra.Name,
			p.Record.Workers.ServiceOfferingID, p.Record.Workers.SSHKeyPair)
	case len(d.desired.collected) > 0:
		return outcome.StallFor(0, infrav1.DeletionNotConfirmedReason, "the garbage collector may have deleted these objects, because their owner was an "+
			"earlier Cluster %s: %s. No worker is removed until they are gone. To keep the workers, create the objects again now, under other names",
			p.Cluster.Name, outcome.Names(d.desired.collected))
	case d.desired.objects == 0:
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "no MachineDeployment or MachinePool asks for workers, so %d worker nodes stay. To use "+
			"them, create a MachineDeployment. To have none, create one with 0 replicas", d.plan.Desired)
	case d.plan.AnyMayGo:
		return outcome.StallFor(0, infrav1.OrderUnknownReason, "%d worker nodes exist, but %d are wanted. spec.drainBeforeScaleDown is Possible, and any of them may be the "+
			"one that the portal removes (status.removalOrder), so none is drained and the portal is not asked. Set spec.removalOrder if you know the order, "+
			"or set spec.drainBeforeScaleDown to Expected", workers, d.plan.Desired)
	case workers < d.plan.Desired:
		return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "%d of %d worker nodes exist. Waiting for the others to join", workers, d.plan.Desired)
	case d.plan.Unbound+d.plan.Missing > 0:
		return d.unboundOutcome()
	case d.plan.Free > 0:
		return d.freeOutcome(p, workers)
	case len(d.plan.NotReady) > 0 && p.Op() == nil:
		return outcome.WaitFor(0, infrav1.NodesNotReadyReason, "worker nodes %s are not Ready, and the portal does not repair nodes. Look at them "+
			"at the portal, or ask its support", outcome.Names(d.plan.NotReady))
	}
	return d.surplusOutcome(p, workers)
}

// surplusOutcome reports what waits until nodes that are not wanted are gone, and what keeps the autoscaler from choosing any.
func (d *decision) surplusOutcome(p *pass.Pass, workers int) outcome.Outcome {
	switch {
	case len(d.plan.Drained) > 0:
		return outcome.WaitFor(0, infrav1.ScalingDownReason, "waiting until the portal accepts fewer workers. Drained: %s", outcome.Names(d.plan.Drained))
	case workers > d.plan.Desired:
		return outcome.WaitFor(0, infrav1.ScalingDownReason, "%d worker nodes exist, but %d are wanted. Waiting for core to delete Machines", workers, d.plan.Desired)
	case d.pins.problem != "":
		return outcome.DoneAs(infrav1.ScaleDownDisabledReason, "the Pods cannot be listed, so the cluster autoscaler is kept from removing nodes: "+
			d.pins.problem+". The provider tries again. If this lasts, look at the API server of the workload cluster")
	case d.desired.autoscaled && removal.Order(ExpectedOrder(p).Order) == removal.Random:
		return outcome.DoneAs(infrav1.ScaleDownDisabledReason, "the order in which the portal removes workers is not known, so the cluster "+
			"autoscaler is kept from removing nodes. If the portal has an order, set spec.removalOrder")
	}
	return outcome.Outcome{}
}

// freeOutcome reports why nodes have no Machine.
func (d *decision) freeOutcome(p *pass.Pass, workers int) outcome.Outcome {
	switch {
	case d.plan.Free == d.desired.stays:
		return outcome.DoneWith("one worker node stays without a Machine, because the portal refuses a cluster without workers. To ask it again, raise the replicas above 1 and lower them")
	case adopted(p):
		return outcome.WaitFor(0, infrav1.NodesUnclaimedReason, "%d of %d worker nodes of the adopted cluster belong to no Machine. The provider does "+
			"not remove them. Raise the replicas until each node has a Machine. After that, lower the replicas to remove nodes", d.plan.Free, workers)
	}
	return outcome.WaitFor(0, infrav1.NodesUnclaimedReason, "worker nodes that belong to no Machine yet: %d of %d", d.plan.Free, workers)
}

// unboundOutcome reports what Machines without a node, or the pool, wait for, although enough nodes exist.
func (d *decision) unboundOutcome() outcome.Outcome {
	if i := slices.IndexFunc(d.nodes.Workers, func(n corev1.Node) bool { return tainted(&n, uninitializedTaint) }); i >= 0 {
		return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "the portal's cloud controller has not initialized worker node %s yet, which has the taint %s. "+
			"If this lasts, ask the portal's support", d.nodes.Workers[i].Name, uninitializedTaint)
	}
	if d.plan.Unbound == 0 {
		return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "the pool waits for %s that no Machine holds", outcome.Count(d.plan.Missing, "Ready worker node"))
	}
	return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "waiting for a Ready worker node for %s", outcome.Count(d.plan.Unbound, "Machine"))
}
