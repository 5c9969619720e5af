// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

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
