// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileWorkers binds each Machine to a worker node, and keeps the number of workers at the sum of the replicas.
func (r *Reconciler) reconcileWorkers(ctx context.Context, s *scope) outcome.Outcome {
	if s.BeingDeleted() {
		if err := r.dropHooks(ctx, s); err != nil {
			return outcome.Fail(err)
		}
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so it is not scaled")
	}
	if !s.done(infrav1.ConnectedCondition) {
		return s.blockedByConnection()
	}
	if o := r.planRecognized(ctx, s); !o.IsDone() {
		return o
	}
	r.noticeOtherManager(s)
	if o := r.carryOutPlan(ctx, s); !o.IsDone() {
		return o
	}
	if !s.desired.known {
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason,
			"the number of workers is not known, because a MachineDeployment has no replicas yet. The %d that exist stay", len(s.nodes))
	}
	if err := errors.Join(r.recordOrder(ctx, s), r.recordSettledSize(ctx, s), r.recordCapacity(ctx, s)); err != nil {
		return outcome.Fail(err)
	}
	switch {
	case s.plan.OrderObserved:
		return outcome.RetryAfter(0) // decided again with what was learned
	case s.plan.Reached:
		return r.scaleReached(ctx, s)
	case s.plan.Scale:
		return r.scale(ctx, s).NoLaterThan(s.plan.RequeueAfter)
	}
	o, differs := r.reconcileDrift(ctx, s)
	if !differs {
		o = s.workersOutcome()
	}
	return o.NoLaterThan(s.plan.RequeueAfter)
}

// carryOutPlan lets core go on with a paused MachinePool, and does the writes.
func (r *Reconciler) carryOutPlan(ctx context.Context, s *scope) outcome.Outcome {
	if err := r.resumePool(ctx, s); err != nil {
		return outcome.Fail(err)
	}
	for _, w := range s.plan.Writes {
		if err := r.carryOut(ctx, s, w); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return outcome.RetryAfter(0) // it was changed: look again
			}
			return outcome.Fail(fmt.Errorf("change Machine %q or Node %q: %w", w.Machine.Seen.Name, w.Node.Seen.Name, err))
		}
	}
	return outcome.Outcome{}
}

// makePlan decides from the cache. A plan that changes something is made again from live reads, because the sum of the replicas
// and the Machines that are being deleted must be from the same moment.
func (r *Reconciler) makePlan(ctx context.Context, s *scope) error {
	if err := r.planFrom(ctx, s, s.members, r.Client, s.way.Workload); err != nil {
		return err
	}
	if len(s.plan.Writes) == 0 && !s.plan.Scale {
		return nil
	}
	live, err := readMembers(ctx, r.Live, s.Cluster)
	if err != nil {
		return err
	}
	return r.planFrom(ctx, s, live, r.Live, s.way.Workload.Client())
}

func (r *Reconciler) planFrom(ctx context.Context, s *scope, from members, reader client.Reader, workload lister) (err error) {
	s.desired = s.desiredBy(from)
	claimed := &infrav1.PortalMachineList{}
	if err := reader.List(ctx, claimed, client.InNamespace(s.Cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.Cluster.Name}); err != nil {
		return fmt.Errorf("list PortalMachines: %w", err)
	}
	s.claimed = claimed.Items
	if err := s.readWorkers(ctx, workload); err != nil {
		return fmt.Errorf("list Nodes: %w", err)
	}
	s.bound = slices.ContainsFunc(claimed.Items, func(m infrav1.PortalMachine) bool { return m.Spec.ProviderID != "" })
	if !s.desired.known {
		s.plan = claims.Plan{}
		return nil
	}
	if s.checks, err = r.healthChecks(ctx, s); err != nil {
		return fmt.Errorf("list MachineHealthChecks: %w", err)
	}
	if s.pinned, err = r.pinnedNodes(ctx, s); err != nil {
		return fmt.Errorf("list Pods: %w", err)
	}
	order := s.expectedOrder()
	view := claims.View{
		ClusterID:     s.ControlPlane.Spec.ClusterID,
		Desired:       s.desired.sum,
		Unasked:       s.desired.objects == 0,
		Size:          s.Record.Size,
		SizeUncertain: s.Record.SizeUncertain,
		Order:         claims.Order(order.Order),
		OrderAssumed:  order.Source == infrav1.RemovalOrderAssumed,
		ObservedOrder: s.Record.RemovalOrder.Order,
		Operation:     operationOn(s.Op()),
		Adopted:       s.adopted(),
		Autoscaled:    s.desired.autoscaled,
		Now:           time.Now(),
		Machines:      s.machineViews(claimed.Items),
		Nodes:         s.nodeViews(),
		Pool:          s.poolView(),
	}
	view.Before, view.ScaledDown = s.nodesBefore()
	if s.Op().Is(operation.Scale) {
		view.Target, view.AnswerLost, view.MayResend = s.Op().Size(), s.Op().Lost(), s.Op().Lost() && s.Op().ResendIn() == 0
	}
	s.plan = claims.Decide(view)
	s.desired.sum = s.plan.Desired
	return nil
}

// recordSettledSize records the number of workers when it becomes certain: for an adopted cluster when every node has a
// Machine, else when as many nodes as desired are Ready and no others exist.
func (r *Reconciler) recordSettledSize(ctx context.Context, s *scope) error {
	settled := s.adopted() && s.desired.objects > 0 && s.plan.Free == 0 && s.plan.Unbound == 0 && len(s.plan.Present) == s.desired.sum && len(s.plan.Writes) == 0
	if !settled && !s.plan.SizeCertain {
		return nil
	}
	return s.Change(ctx, func(next *operation.State) {
		next.Record.Size, next.Record.SizeUncertain = s.desired.sum, false
	})
}

// dropHooks removes the hooks from all Machines of a Cluster that is being deleted. The whole portal cluster is deleted, so no
// node is drained or kept. If it is retained instead, a scale-down that has begun is undone.
func (r *Reconciler) dropHooks(ctx context.Context, s *scope) error {
	machines := &clusterv1.MachineList{}
	name := s.ControlPlane.Labels[clusterv1.ClusterNameLabel]
	if s.Cluster != nil {
		name = s.Cluster.Name
	}
	of := []client.ListOption{client.InNamespace(s.ControlPlane.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}}
	if err := r.Client.List(ctx, machines, of...); err != nil {
		return err
	}
	if err := r.restoreNodes(ctx, s, machines.Items); err != nil {
		return err
	}
	all := []error{r.endPauses(ctx, of...)}
	for i := range machines.Items {
		if m := &machines.Items[i]; m.Spec.InfrastructureRef.Kind == machineKind {
			none := func() { applyToMachine(m, claims.Machine{PreDrain: true, PreTerminate: true}, claims.Machine{}) }
			all = append(all, client.IgnoreNotFound(r.writer().Change(ctx, m, none)))
		}
	}
	return errors.Join(all...)
}
