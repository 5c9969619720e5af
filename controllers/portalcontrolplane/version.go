// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/drain"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileVersion upgrades the portal cluster until all of it runs spec.version.
func (r *Reconciler) reconcileVersion(ctx context.Context, s *scope) outcome.Outcome {
	if !s.done(infrav1.ConnectedCondition) {
		return s.blockedByConnection()
	}
	if op := s.Op(); op != nil {
		s.Progress.See(op, s.running().Digest())
	}
	pauses := false
	if err := lifecycle.RecordWork(ctx, &s.Pass, s.running(), s.members.Machines, s.liveWorkers); err != nil {
		return outcome.Fail(err)
	}
	cordoned, err := lifecycle.RestoreScheduling(ctx, &s.Pass, s.way.Workload.Client(), s.nodes.Workers, s.members.Machines)
	if err != nil {
		return outcome.Fail(err)
	}
	o, starts := r.Lifecycle.Upgrade(ctx, &s.Pass, s.running(), s.members.Machines, lifecycle.Before{
		Look: s.obstacles,
		Pause: func(ctx context.Context) (o outcome.Outcome) {
			pauses, o = r.workers(s).PausePool(ctx, &s.Pass, s.members, s.nodes, s.ControlPlane.Spec.Version)
			return o
		},
	})
	s.keepsPause = pauses || starts
	if cordoned != "" && o.Kind != outcome.Failed && o.Kind != outcome.Retry {
		return o.With(cordoned).NoLaterThan(access.Retry)
	}
	return o
}

// liveWorkers reads the workers past the cache.
func (s *scope) liveWorkers(ctx context.Context) ([]corev1.Node, error) {
	nodes, err := workers.ReadNodes(ctx, s.way.Workload.Client(), s.ControlPlane.Spec.WorkerNodeSelector)
	return nodes.Workers, err
}

// obstacles returns what may stop an upgrade, as the workload cluster shows it.
func (s *scope) obstacles(ctx context.Context) []string {
	nodes, err := s.liveWorkers(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Cannot list the Nodes of a workload cluster", "error", fmt.Sprintf("%.500v", err))
		unread := []string{"Nodes that cannot be listed: the manager's log has the error"}
		return append(unread, drain.Obstacles(ctx, s.way.Workload.Client(), s.nodes.Workers)...)
	}
	return drain.Obstacles(ctx, s.way.Workload.Client(), nodes)
}

// running is what shows which version the portal cluster runs.
func (s *scope) running() lifecycle.Running {
	return lifecycle.Running{Record: &s.Record, Server: s.serverVersion, Nodes: s.nodes.Workers}
}
