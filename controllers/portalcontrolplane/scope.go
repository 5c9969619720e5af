// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// scope is one pass over one PortalControlPlane: what it has read, and the outcomes of its steps.
type scope struct {
	pass.Pass

	way access.Way // to the workload cluster

	// Of the workload cluster, once connected.
	serverVersion string // version of the API server
	nodes         []corev1.Node
	otherIDs      []string    // providerIDs of Nodes that are not workers
	nodeUIDs      []types.UID // of all Nodes
	controlNodes  int         // Nodes with a mark of control nodes
	unmarked      int         // Nodes without one
	bound         bool        // some PortalMachine holds a Node, or has held one

	clockBehind time.Duration // how far the clock of the API server is behind the manager's

	keepsPause bool // a MachinePool stays paused, because an upgrade is about to start

	members members // as the cache shows them at the start of the pass
	desired desired
	claimed []infrav1.PortalMachine
	checks  healthChecks    // conditions that the Cluster's MachineHealthChecks act on
	pinned  map[string]bool // Nodes with Pods that must not be evicted, if the cluster is autoscaled
	plan    claims.Plan
	drains  map[string]string // what the provider's own drains wait for, by Node

	outcomes map[string]outcome.Outcome
	// unreadable is the error of one of our annotations that was edited and cannot be read. Nothing is done then.
	unreadable error
}

// loadScope reads what every step needs.
func (r *Reconciler) loadScope(ctx context.Context, controlPlane *infrav1.PortalControlPlane, cluster *clusterv1.Cluster) (*scope, error) {
	s := &scope{outcomes: map[string]outcome.Outcome{}, drains: map[string]string{}}
	s.ControlPlane, s.Cluster = controlPlane, cluster
	s.Tools = r.tools(s)
	s.State, s.unreadable = operation.Load(controlPlane)
	var err error
	if s.unreadable == nil {
		err = s.Load(ctx, r.Client, r.Identities)
	}
	return s, err
}

// adopted reports whether the cluster was neither created nor scaled by the provider, and its Machines and nodes never matched.
// Its surplus nodes are not removed.
func (s *scope) adopted() bool {
	return s.Record.Workers == nil && s.Record.Size < 0 && !s.Last.Is(operation.Scale)
}

// done reports whether the condition's step ran in this pass and is done.
func (s *scope) done(condition string) bool {
	o, reached := s.outcomes[condition]
	return reached && o.IsDone()
}
