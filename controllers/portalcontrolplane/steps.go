// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileCluster makes sure that the portal cluster exists.
func (r *Reconciler) reconcileCluster(ctx context.Context, s *scope) outcome.Outcome {
	return r.Lifecycle.Ensure(ctx, &s.Pass, func(ctx context.Context) (cloud.CreateClusterRequest, outcome.Outcome) {
		return r.createRequest(ctx, s)
	})
}

// gatherTime is how long the creation waits for the MachineDeployments of one manifest to arrive, so that the first size is their
// sum.
const gatherTime = 3 * time.Second

// createRequest collects the parameters of the portal cluster, except its name, or returns an outcome with what is missing.
func (r *Reconciler) createRequest(ctx context.Context, s *scope) (cloud.CreateClusterRequest, outcome.Outcome) {
	none := cloud.CreateClusterRequest{}
	desired := workers.DesiredBy(s.Cluster, s.members, s.Record)
	if o := s.awaitTopology(desired, r.memory(s).created.age(s.ControlPlane.CreationTimestamp.Time)); !o.IsDone() {
		return none, o
	}
	parameters, o := r.workers(s).Parameters(ctx, &s.Pass, s.members, desired)
	if !o.IsDone() {
		return none, o
	}
	if wait := gatherTime - r.memory(s).youngest.age(desired.Youngest); wait > 0 {
		return none, outcome.WaitFor(wait, infrav1.WaitingForObjectReason, "waiting a few seconds for all MachineDeployments to be created")
	}
	if o := workers.Manageable(&s.Pass, desired.FirstSize(), 0); !o.IsDone() {
		return none, o
	}
	version, o := r.Lifecycle.Offered(ctx, &s.Pass, s.running(), s.ControlPlane.Spec.Version)
	if !o.IsDone() {
		return none, o
	}
	return cloud.CreateClusterRequest{
		Description:         s.ControlPlane.Spec.Description,
		ZoneID:              s.PortalCluster.Spec.ZoneID,
		KubernetesVersionID: version.ID,
		ServiceOfferingID:   parameters.ServiceOfferingID,
		SSHKeyPair:          parameters.SSHKeyPair,
		Size:                desired.FirstSize(),
		ControlNodes:        int(ptr.Deref(s.ControlPlane.Spec.Replicas, 1)),
		NetworkID:           s.PortalCluster.Status.NetworkID,
		VPCID:               s.PortalCluster.Status.VPCID,
	}, outcome.Outcome{}
}

// reconcileOperation polls the operation in flight.
func (r *Reconciler) reconcileOperation(ctx context.Context, s *scope) outcome.Outcome {
	return r.Lifecycle.PollOperation(ctx, &s.Pass)
}

// reconcileKubeconfig keeps the kubeconfig Secret and the endpoint, and opens the way to the workload cluster.
func (r *Reconciler) reconcileKubeconfig(ctx context.Context, s *scope) (o outcome.Outcome) {
	if !s.done(infrav1.ProvisionedCondition) {
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the portal cluster: see condition Provisioned")
	}
	s.way, o = r.Access.Keep(ctx, &s.Pass)
	return o
}

// reconcileConnection makes sure that the workload cluster can be read. During a short outage, a condition that is True stays so:
// a manager that starts has no connection yet.
func (r *Reconciler) reconcileConnection(ctx context.Context, s *scope) outcome.Outcome {
	connected := conditions.IsTrue(s.ControlPlane, infrav1.ConnectedCondition)
	return r.memory(s).outage.Tolerate(connected, infrav1.ConnectionDownReason, s.readWorkload(ctx))
}

// readWorkload reads Nodes and version of the workload cluster. A connection is enough: the Secret may be refused, missing or changed.
func (s *scope) readWorkload(ctx context.Context) (o outcome.Outcome) {
	if !s.done(infrav1.KubeconfigReadyCondition) && !(s.way.Open() && s.Gone.IsDone()) {
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the kubeconfig: see condition KubeconfigReady")
	}
	if s.serverVersion, o = s.way.ServerVersion(&s.Pass); !o.IsDone() {
		return o
	}
	s.nodes, o = workers.WatchedNodes(ctx, &s.Pass, s.way)
	return o
}

// blockedByConnection is the outcome of the steps that need a connection. Their conditions stay as they are if the connection's
// does.
func (s *scope) blockedByConnection() outcome.Outcome {
	if s.outcomes[infrav1.ConnectedCondition].Kind == outcome.Retry {
		return outcome.RetryAfter(access.ConnectTime)
	}
	return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the workload cluster: see condition Connected")
}

// reconcileVersion upgrades the portal cluster until all of it runs spec.version.
func (r *Reconciler) reconcileVersion(ctx context.Context, s *scope) outcome.Outcome {
	if !s.done(infrav1.ConnectedCondition) {
		return s.blockedByConnection()
	}
	if op := s.Op(); op != nil {
		s.Progress.See(op, s.running().Digest())
	}
	if err := lifecycle.RecordWork(ctx, &s.Pass, s.running(), s.members.Machines, s.liveWorkers); err != nil {
		return outcome.Fail(err)
	}
	cordoned, err := lifecycle.RestoreScheduling(ctx, &s.Pass, s.way.Connection.Client(), s.nodes.Workers, s.members.Machines)
	if err != nil {
		return outcome.Fail(err)
	}
	o, pauses := r.upgrade(ctx, s)
	if !pauses {
		err := r.workers(s).ResumePool(ctx, &s.Pass, s.members, s.nodes)
		switch {
		case apierrors.IsConflict(err):
			return outcome.RetryAfter(0) // core has written the MachinePool
		case err != nil:
			return outcome.Fail(err)
		}
	}
	if cordoned != "" && o.Kind != outcome.Failed && o.Kind != outcome.Retry {
		return o.With(cordoned).NoLaterThan(access.Retry)
	}
	return o
}

// upgrade requests the upgrade to spec.version if it is due. pauses reports that the MachinePool is paused for it, and that it has yet to be sent.
func (r *Reconciler) upgrade(ctx context.Context, s *scope) (o outcome.Outcome, pauses bool) {
	next, o := r.Lifecycle.NextUpgrade(ctx, &s.Pass, s.running(), workers.Draining(&s.Pass, s.members, s.nodes))
	if next != nil {
		o = next.Precheck(ctx, &s.Pass, s.obstacles)
	}
	if next == nil || !o.IsDone() {
		return o, o.Kind == outcome.Retry
	}
	if o := r.workers(s).PausePool(ctx, &s.Pass, s.members, s.nodes); !o.IsDone() {
		return o, true
	}
	o = r.Lifecycle.SendUpgrade(ctx, &s.Pass, s.running(), next)
	return o, o.Kind == outcome.Retry
}

// liveWorkers reads the workers past the cache.
func (s *scope) liveWorkers(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := workers.ReadNodes(ctx, s.way.Connection.Client(), s.ControlPlane.Spec.WorkerNodeSelector)
	return nodes.Workers, err
}

// obstacles returns what may stop an upgrade, as the workload cluster shows it.
func (s *scope) obstacles(ctx context.Context) []string {
	nodes, err := s.liveWorkers(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Cannot list the Nodes of a workload cluster", "error", fmt.Sprintf("%.500v", err))
		unread := []string{"Nodes that cannot be listed: the manager's log has the error"}
		return append(unread, drain.Obstacles(ctx, s.way.Connection.Client(), s.nodes.Workers)...)
	}
	return drain.Obstacles(ctx, s.way.Connection.Client(), nodes)
}

// running is what shows which version the portal cluster runs.
func (s *scope) running() lifecycle.Running {
	return lifecycle.Running{Record: &s.Record, Server: s.serverVersion, Nodes: s.nodes.Workers}
}

// reconcileWorkers keeps the workers as the replicas ask.
func (r *Reconciler) reconcileWorkers(ctx context.Context, s *scope) (o outcome.Outcome) {
	if s.BeingDeleted() {
		if err := r.workers(s).Release(ctx, &s.Pass, s.way); err != nil {
			return outcome.Fail(err)
		}
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so it is not scaled")
	}
	if !s.done(infrav1.ConnectedCondition) {
		return s.blockedByConnection()
	}
	s.plan, o = r.workers(s).Reconcile(ctx, &s.Pass, s.way, s.members, s.nodes)
	return o
}

func (r *Reconciler) workers(s *scope) workers.Keeper {
	return workers.Keeper{Client: r.Client, Live: r.Live, Access: r.Access, Memory: &r.memory(s).workers}
}
