// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileWorkers keeps Machines and worker nodes one to one, and the number of workers at the sum of the replicas.
func (r *Reconciler) reconcileWorkers(ctx context.Context, s *scope) outcome.Outcome {
	if s.retiring() {
		if err := r.dropHooks(ctx, s); err != nil {
			return outcome.Fail(err)
		}
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted; nothing is scaled")
	}
	if !s.done(infrav1.ConnectedCondition) {
		return outcome.BlockedBy(infrav1.WaitingForConnectionReason, "see condition Connected")
	}
	if err := r.makePlan(ctx, s); err != nil {
		return outcome.Fail(err)
	}
	for _, move := range s.plan.Moves {
		if err := r.carryOut(ctx, s, move); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return outcome.RetryAfter(0) // it changed under our eyes: look again
			}
			return outcome.Fail(fmt.Errorf("machine %s: %w", move.Machine, err))
		}
	}
	if !s.desired.known {
		return outcome.WaitFor(0, infrav1.WaitingForWorkersReason,
			"no MachineDeployment says yet how many workers there are to be; the %d that are there stay", len(s.nodes))
	}
	if err := errors.Join(r.noteOrder(ctx, s), r.noteSettled(ctx, s), r.noteCapacity(ctx, s)); err != nil {
		return outcome.Fail(err)
	}
	if s.op.Lost() && s.op.Type == operation.Scale {
		return r.settleScale(ctx, s)
	}
	if s.plan.Scale {
		return r.scale(ctx, s)
	}
	o, differs := r.restoreSize(ctx, s)
	if !differs {
		o = s.workersOutcome()
	}
	return o.NoLaterThan(s.plan.After)
}

// makePlan decides from the cache; what it would change is decided again from live reads, since the sum of the replicas
// and the Machines that are being deleted must be of one moment.
func (r *Reconciler) makePlan(ctx context.Context, s *scope) error {
	if err := r.planFrom(ctx, s, r.Client, s.workload); err != nil {
		return err
	}
	if len(s.plan.Moves) == 0 && !s.plan.Scale {
		return nil
	}
	workload, err := r.ClusterCache.GetUncachedClient(ctx, s.clusterKey())
	if err != nil {
		return err
	}
	return r.planFrom(ctx, s, r.Live, workload)
}

func (r *Reconciler) planFrom(ctx context.Context, s *scope, reader client.Reader, workload client.Reader) (err error) {
	if s.desired, err = r.readDesired(ctx, reader, s); err != nil {
		return err
	}
	claimed := &infrav1.PortalMachineList{}
	if err := reader.List(ctx, claimed, client.InNamespace(s.cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}); err != nil {
		return fmt.Errorf("list PortalMachines: %w", err)
	}
	if s.nodes, err = workers(ctx, workload); err != nil {
		return fmt.Errorf("list Nodes: %w", err)
	}
	if !s.desired.known {
		s.plan = claims.Plan{}
		return nil
	}
	s.plan = claims.Make(claims.View{
		ClusterID:   s.controlPlane.Spec.ClusterID,
		Desired:     s.desired.sum,
		Size:        s.record.Size,
		Order:       s.record.RemovalOrder,
		Before:      s.removedFrom(),
		DownRefused: s.downRefused(),
		Operation:   operationOn(s.op),
		Adopted:     s.adopted(),
		Takeovers:   r.Takeovers(ctx),
		Now:         time.Now(),
		Machines:    machineViews(s, claimed.Items),
		Nodes:       nodeViews(s.nodes),
	})
	return nil
}

// noteOrder remembers in which order the last scale down has shown the portal to remove workers.
func (r *Reconciler) noteOrder(ctx context.Context, s *scope) error {
	if !s.plan.Observed {
		return nil
	}
	expected := s.record.RemovalOrder
	err := r.change(ctx, s, func() {
		s.record.RemovalOrder, s.last.Before = s.plan.Order, nil
		operation.PutRecord(s.controlPlane, s.record)
		operation.Put(s.controlPlane, s.last)
	})
	switch {
	case err != nil || expected == s.plan.Order:
	case s.plan.Order == claims.OldestFirst:
		r.event(s, infrav1.EventVictimOrder, "scale", "the portal removed the oldest workers, not the newest: from now on it is expected to, and the oldest are drained")
	default:
		r.event(s, infrav1.EventVictimOrder, "scale", "the portal removed other workers than were expected to go: from now on nothing is "+
			"expected of it, and it is asked to remove workers only when all Machines that go are drained")
	}
	return err
}

// noteSettled ends the care that is taken with an adopted cluster, when Machines and nodes are one to one.
func (r *Reconciler) noteSettled(ctx context.Context, s *scope) error {
	if !s.adopted() || s.plan.Free > 0 || s.plan.Unbound > 0 || len(s.plan.Present) != s.desired.sum || len(s.plan.Moves) > 0 {
		return nil
	}
	return r.change(ctx, s, func() {
		s.record.Size = len(s.plan.Present)
		operation.PutRecord(s.controlPlane, s.record)
	})
}

// operationOn says what the operation in flight does to nodes.
func operationOn(op *operation.Operation) claims.Operation {
	switch {
	case op == nil:
		return claims.Idle
	case op.Type == operation.Scale && !op.RemovesNodes():
		return claims.AddsNodes
	case op.Type == operation.Scale:
		return claims.RemoveNodes
	}
	return claims.Replaces
}

func machineViews(s *scope, portalMachines []infrav1.PortalMachine) []claims.Machine {
	byName := map[string]infrav1.PortalMachine{}
	for _, pm := range portalMachines {
		byName[pm.Name] = pm
	}
	var views []claims.Machine
	for _, m := range s.desired.machines {
		pm, found := byName[m.Spec.InfrastructureRef.Name]
		if !found && m.DeletionTimestamp.IsZero() {
			continue // core is still making it
		}
		view := machineView(m, pm)
		if !found {
			// somebody has deleted the PortalMachine; the Machine still has the Node
			view.ClaimProviderID, view.ClaimGoes = view.ProviderID, true
		}
		view.Foreign = found && s.record.Workers != nil && pm.Spec.WorkerParameters != *s.record.Workers
		views = append(views, view)
	}
	return views
}

func machineView(m clusterv1.Machine, pm infrav1.PortalMachine) claims.Machine {
	view := claims.Machine{
		Name:            m.Name,
		Created:         m.CreationTimestamp.Time,
		Set:             m.Labels[clusterv1.MachineSetNameLabel],
		Owner:           cmp.Or(m.Labels[clusterv1.MachineDeploymentNameLabel], m.Labels[clusterv1.MachineSetNameLabel]),
		Outdated:        conditions.GetReason(&m, clusterv1.MachineUpToDateCondition) == clusterv1.MachineNotUpToDateReason,
		Marked:          metav1.HasAnnotation(m.ObjectMeta, clusterv1.DeleteMachineAnnotation),
		Unhealthy:       conditions.IsFalse(&m, clusterv1.MachineHealthCheckSucceededCondition),
		Shielded:        metav1.HasAnnotation(m.ObjectMeta, infrav1.ShieldAnnotation),
		Deleting:        !m.DeletionTimestamp.IsZero() || !pm.DeletionTimestamp.IsZero(),
		PreDrain:        metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook),
		PreTerminate:    metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook),
		ClaimProviderID: pm.Spec.ProviderID,
		ClaimGoes:       !pm.DeletionTimestamp.IsZero(),
		ProviderID:      m.Spec.ProviderID,
		NodeRef:         m.Status.NodeRef.Name,
	}
	if pm.Spec.Node != nil {
		view.ClaimNode, view.ClaimNodeUID = pm.Spec.Node.Name, pm.Spec.Node.UID
	}
	// core has drained the Machine's Node, and waits at the pre-terminate hook
	deleting := conditions.Get(&m, clusterv1.MachineDeletingCondition)
	if deleting != nil && deleting.Reason == clusterv1.MachineDeletingWaitingForPreTerminateHookReason {
		view.Drained = true
		if m.Status.Deletion != nil {
			view.DrainedAt = m.Status.Deletion.WaitForPreTerminateHookStartTime.Time
		}
	}
	return view
}

func nodeViews(nodes []corev1.Node) []claims.Node {
	var views []claims.Node
	for i := range nodes {
		n := &nodes[i]
		views = append(views, claims.Node{
			Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, Created: n.CreationTimestamp.Time,
			Ready: util.IsNodeReady(n), Cordoned: n.Spec.Unschedulable, LastSet: n.Annotations[clusterv1.OwnerNameAnnotation],
			Doomed: slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == autoscalerTaint }),
		})
	}
	return views
}

// workersOutcome tells how Machines and nodes stand.
func (s *scope) workersOutcome() outcome.Outcome {
	switch {
	case len(s.plan.Foreign) > 0:
		return outcome.StallFor(0, infrav1.TemplateNotHonouredReason,
			"the workers of the portal cluster are of offering %s with SSH key pair %s, and the portal cannot change that: revert the templates of "+
				"these Machines: %s. Nothing is bound, drained or scaled until then",
			s.record.Workers.ServiceOfferingID, s.record.Workers.SSHKeyPair, list(s.plan.Foreign))
	case s.op != nil && s.op.Type == operation.Scale:
		reason := infrav1.ScalingUpReason
		if operationOn(s.op) == claims.RemoveNodes {
			reason = infrav1.ScalingDownReason
		}
		return outcome.WaitFor(0, reason, "the portal scales from %d to %s workers (job %s)", s.op.From, s.op.Target, s.op.JobID)
	case len(s.plan.Draining) > 0:
		return outcome.WaitFor(0, infrav1.DrainingReason,
			"the portal is asked to remove workers when these Machines are drained: %s (see their condition Deleting)", list(s.plan.Draining))
	case s.op != nil && (len(s.plan.Present) != s.desired.sum || s.plan.Unbound > 0):
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "workers are reconciled after the portal has finished the %s", s.op)
	}
	return s.countOutcome()
}

// countOutcome compares the numbers of Machines and nodes.
func (s *scope) countOutcome() outcome.Outcome {
	workers := len(s.plan.Present)
	switch {
	case workers < s.desired.sum:
		return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "%d of %d worker nodes are there", workers, s.desired.sum)
	case s.plan.Unbound > 0:
		return outcome.WaitFor(0, infrav1.WaitingForNodesReason, "%d Machines wait for a worker node that is Ready", s.plan.Unbound)
	case s.desired.stays > 0 && s.plan.Free == s.desired.stays:
		return outcome.DoneBecause(infrav1.WorkersReadyReason,
			"one worker stays, which no Machine holds: the portal refuses a cluster without workers")
	case s.plan.Free > 0 && s.adopted():
		return outcome.WaitFor(0, infrav1.NodesUnclaimedReason, "%d of %d worker nodes of the adopted cluster belong to no Machine: raise the "+
			"replicas to keep them, or have the portal remove them; they are not removed from here", s.plan.Free, workers)
	case s.plan.Free > 0:
		return outcome.WaitFor(0, infrav1.NodesUnclaimedReason, "%d of %d worker nodes belong to no Machine yet", s.plan.Free, workers)
	case len(s.plan.NotReady) > 0 && s.op == nil:
		return outcome.WaitFor(0, infrav1.NodesNotReadyReason,
			"these worker nodes are not Ready, and the portal repairs no nodes: %s. Look at them at the portal, or ask its support", list(s.plan.NotReady))
	case workers > s.desired.sum:
		return outcome.WaitFor(0, infrav1.ScalingDownReason, "%d worker nodes are there, %d are wanted; waiting for Machines to be deleted", workers, s.desired.sum)
	}
	return outcome.DoneBecause(infrav1.WorkersReadyReason, "")
}

func list(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ", ") }

// dropHooks lets all Machines of a Cluster that is being deleted go: the whole portal cluster goes, so there is nothing
// to drain and no node to keep.
func (r *Reconciler) dropHooks(ctx context.Context, s *scope) error {
	machines := &clusterv1.MachineList{}
	name := s.controlPlane.Labels[clusterv1.ClusterNameLabel]
	if s.cluster != nil {
		name = s.cluster.Name
	}
	if err := r.Client.List(ctx, machines, client.InNamespace(s.controlPlane.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		return err
	}
	var all []error
	for i := range machines.Items {
		if machines.Items[i].Spec.InfrastructureRef.Kind == machineKind {
			all = append(all, client.IgnoreNotFound(r.letGo(ctx, &machines.Items[i])))
		}
	}
	return errors.Join(all...)
}
