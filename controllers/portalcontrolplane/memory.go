// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/workers"
)

// memory is what the manager remembers of a portal cluster.
type memory struct {
	backoff  outcome.Backoff
	progress operation.LastProgress
	outage   outcome.Outage // of the connection to the workload cluster
	workers  workers.Memory
}

func (r *Reconciler) memory(s *scope) *memory {
	return r.memories.Of(client.ObjectKeyFromObject(s.ControlPlane))
}
