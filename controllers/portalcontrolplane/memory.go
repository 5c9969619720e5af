// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// memory is what the manager remembers of a portal cluster.
type memory struct {
	backoff  outcome.Backoff
	progress operation.LastProgress
	outage   outcome.Outage // of the connection to the workload cluster
	workers  workers.Memory
	created  sighting // of the object
	youngest sighting // of the objects that ask for workers
}

// sighting measures how old something is whose time was taken by the API server. That clock may be ahead of the manager's.
type sighting struct{ of, first time.Time }

// age returns how long ago the time was, or how long the manager has known it if that is longer.
func (s *sighting) age(of time.Time) time.Duration {
	if !s.of.Equal(of) || s.first.IsZero() {
		*s = sighting{of: of, first: time.Now()}
	}
	return max(time.Since(of), time.Since(s.first))
}

func (r *Reconciler) memory(s *scope) *memory {
	return r.memories.Of(client.ObjectKeyFromObject(s.ControlPlane))
}
