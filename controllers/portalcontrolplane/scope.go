// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// scope is one pass over one PortalControlPlane: what it has read, and the outcomes of its steps.
type scope struct {
	pass.Pass

	members workers.Members // as the cache shows them at the start of the pass

	way           access.Way    // to the workload cluster. reconcileKubeconfig opens it
	serverVersion string        // of the API server. reconcileConnection reads it
	nodes         workers.Nodes // of the workload cluster. reconcileConnection reads them
	keepsPause    bool          // a MachinePool stays paused, because an upgrade is about to start. reconcileVersion decides that
	plan          *claims.Plan  // that reconcileWorkers has made, or nil

	outcomes map[string]outcome.Outcome
	// unreadable is the error of one of our annotations that was edited and cannot be read. Nothing is done then.
	unreadable error
}

// loadScope reads what every step needs.
func (r *Reconciler) loadScope(ctx context.Context, controlPlane *infrav1.PortalControlPlane, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{outcomes: map[string]outcome.Outcome{}}
	s.ControlPlane, s.Cluster = controlPlane, cluster
	s.Tools = r.tools(s)
	s.State, s.unreadable = operation.Load(controlPlane)
	var err error
	if s.unreadable == nil {
		err = s.Load(ctx, r.Client, r.Identities)
	}
	return s, err
}

// done reports whether the condition's step ran in this pass and is done.
func (s *scope) done(condition string) bool {
	o, reached := s.outcomes[condition]
	return reached && o.IsDone()
}
