// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// memory is what the manager remembers of a portal cluster.
type memory struct {
	backoff    outcome.Backoff
	outage     outcome.Outage // of the connection to the workload cluster
	drift      string         // the set of nodes that differs from the size, or ""
	driftSince time.Time      // since when the set has been the same
	pinned     map[string]bool
	pinnedAt   time.Time
	other      otherManager // of its Nodes
}

func (r *Reconciler) memory(s *scope) *memory {
	return r.memories.Of(client.ObjectKeyFromObject(s.ControlPlane))
}
