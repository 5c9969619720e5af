// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Keeper keeps the workers of one portal cluster. Each pass makes one.
type Keeper struct {
	Client client.Client
	Live   client.Reader // past the cache
	Access *access.Kubeconfigs
	Memory *Memory
}

// Memory is what the manager remembers of the workers from one pass to the next. The zero value is ready to use.
type Memory struct {
	drift      string    // the set of nodes that differs from the size, or ""
	driftSince time.Time // since when the set has been the same
	pins       pins
	// positions of instances in the portal's list, by name, and the nodes for which they were read
	positions   map[string]int
	positionsOf string
	ended       string       // the id of the last scale-down
	endedAt     time.Time    // when its end was seen
	other       otherManager // of the Nodes
	failed      failures     // of the last pass
}

// decision is a plan with what it was made from.
type decision struct {
	members Members
	nodes   Nodes
	desired Desired
	pins    pins
	view    claims.View
	plan    claims.Plan
}

// Reconcile binds each Machine to a worker node, and keeps the number of workers at the sum of the replicas. It returns the plan, or nil if
// the number of workers is not known. The steps are:
//
//  1. The plan is made from what the replicas ask for and what exists, as the cache shows it, and again with the portal's list of
//     instances if nodes have to be told apart by it.
//  2. A plan that changes something is made again from live reads, because the sum of the replicas and the Machines that are being
//     deleted must be from the same moment. In a namespace that is being deleted, it keeps all workers.
//  3. Nothing is changed if workers cannot be told from control nodes.
//  4. Machines, PortalMachines, Nodes and the pool are written (carryOut).
//  5. The portal is asked (request).
func (k Keeper) Reconcile(ctx context.Context, p *pass.Pass, way access.Way, members Members, nodes Nodes) (*claims.Plan, outcome.Outcome) {
	d, err := k.decide(ctx, p, way.Connection, members, nodes)
	if read := false; err == nil && d.plan.NeedsPositions {
		if read, err = k.Memory.readPositions(ctx, p, nodes.Workers); read {
			d, err = k.decide(ctx, p, way.Connection, members, nodes)
		}
	}
	if err == nil && d.changes() {
		d, err = k.decideLive(ctx, p, way.Connection)
	}
	if err != nil {
		return nil, outcome.Fail(err)
	}
	var plan *claims.Plan
	if d.desired.known {
		plan = &d.plan
	}
	if d.changes() {
		ctrl.LoggerFrom(ctx).V(4).Info("A plan changes something", "plan", d.plan, "view", d.view)
	}
	if o := d.recognized(p); !o.IsDone() {
		return plan, o
	}
	k.noticeOtherManager(p, d)
	drains, failed, o := k.carryOut(ctx, p, way.Connection.Client(), d)
	k.Memory.failed = failed
	switch {
	case !o.IsDone():
		return plan, o
	case plan == nil:
		return nil, outcome.WaitFor(0, infrav1.WaitingForObjectReason,
			"the number of workers is not known, because a MachineDeployment has no replicas yet. The %d that exist stay", len(d.nodes.Workers))
	}
	for _, name := range d.plan.Draining {
		drains[name] = coreWaits(d.members.machine(name))
	}
	o = k.request(ctx, p, d, drains)
	reportBlocked(p, d.plan.Draining, drains, o)
	return plan, failed.in(o)
}

// decide makes the plan.
func (k Keeper) decide(ctx context.Context, p *pass.Pass, workload access.Connection, members Members, nodes Nodes) (*decision, error) {
	d := &decision{members: members, nodes: nodes, desired: DesiredBy(p.Cluster, members, p.Record)}
	if !d.desired.known {
		return d, nil
	}
	d.pins = k.Memory.lookAtPods(ctx, workload.Client(), d.desired)
	view := viewOf(p, d.desired)
	view.Ended = k.Memory.endOf(p.Last)
	view.Machines = machineViews(members, p.Record.Workers)
	view.Nodes = nodeViews(nodes.Workers, d.pins.on(nodes.Workers), k.Memory.positions, workload.ClockBehind())
	noteOrigins(view.Nodes, members.Machines, p.Last)
	for i := range view.Nodes {
		view.Nodes[i].Refused = k.Memory.failed.node(view.Nodes[i].Name)
	}
	view.Pool = poolView(p.Cluster, members.pool, nodes)
	d.view, d.plan = view, claims.Decide(view)
	return d, nil
}

// decideLive makes the plan from live reads.
func (k Keeper) decideLive(ctx context.Context, p *pass.Pass, workload access.Connection) (*decision, error) {
	members, err := ReadMembers(ctx, k.Live, p.Cluster)
	if err != nil {
		return nil, err
	}
	if members.ending, err = k.namespaceEnds(ctx, p.Cluster.Namespace); err != nil {
		return nil, err
	}
	nodes, err := ReadNodes(ctx, workload.Client(), p.ControlPlane.Spec.WorkerNodeSelector)
	if err != nil {
		return nil, err
	}
	return k.decide(ctx, p, workload, members, nodes)
}

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// namespaceEnds reports whether the namespace is being deleted. Its objects are deleted one after the other, MachineDeployments often
// before the Cluster. Until the deletion of the Cluster is seen, they look as if a person had deleted them to have no workers.
func (k Keeper) namespaceEnds(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	if err := k.Live.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}

// changes reports whether the plan changes an object, or asks the portal.
func (d *decision) changes() bool { return len(d.plan.Writes) > 0 || d.plan.Scale }

// request records what the Nodes show, and asks the portal for the plan's number of workers. If nothing is asked, it reports what the
// workers wait for.
func (k Keeper) request(ctx context.Context, p *pass.Pass, d *decision, drains map[string]string) outcome.Outcome {
	if err := errors.Join(recordOrder(ctx, p, d.plan), recordSettledSize(ctx, p, d)); err != nil {
		return outcome.Fail(err)
	}
	if err := k.recordCapacity(ctx, p.Cluster, d); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to record the capacity of the nodes. The cluster autoscaler cannot add a first node")
	}
	switch {
	case d.plan.OrderObserved:
		return outcome.RetryAfter(0) // decided again with what was learned
	case d.plan.Reached: // the Nodes show the result of a lost scale
		if o := p.Runner().Finish(ctx, operation.Succeeded, ""); !o.IsDone() {
			return o
		}
		return outcome.RetryAfter(0)
	case d.plan.Scale:
		o := scale(ctx, p, d.plan)
		if o.IsDone() {
			o = d.outcome(p, drains).In(o.RequeueAfter)
		}
		return o.NoLaterThan(d.plan.RequeueAfter)
	}
	o, differs := k.Memory.reconcileDrift(ctx, p, d.plan)
	if !differs {
		o = d.outcome(p, drains)
	}
	return o.NoLaterThan(d.plan.RequeueAfter)
}

// recordSettledSize records the number of workers when it becomes certain: for an adopted cluster when every node has a
// Machine, else when as many nodes as desired are Ready and no others exist.
func recordSettledSize(ctx context.Context, p *pass.Pass, d *decision) error {
	plan := d.plan
	settled := adopted(p) && d.desired.objects > 0 && plan.Free == 0 && plan.Unbound == 0 && len(plan.Present) == plan.Desired && len(plan.Writes) == 0
	if !settled && !plan.SizeCertain {
		return nil
	}
	return p.Change(ctx, func(next *operation.State) {
		next.Record.Size, next.Record.SizeUncertain = plan.Desired, false
	})
}

// adopted reports whether the cluster was neither created nor scaled by the provider, and its Machines and nodes never matched.
// Its surplus nodes are not removed.
func adopted(p *pass.Pass) bool {
	return p.Record.Workers == nil && p.Record.Size < 0 && !p.Last.Is(operation.Scale)
}
