// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// manageable is done if the provider can manage so many workers. A cluster that has more can be scaled down.
func (s *scope) manageable(workers int) outcome.Outcome {
	if workers > max(maxWorkers, s.Record.Size, len(s.plan.Present)) {
		return outcome.StallFor(0, infrav1.TooManyNodesReason, "the replicas ask for %d workers, but the provider manages at most %d in a cluster. "+
			"Lower the replicas", workers, maxWorkers)
	}
	return outcome.Outcome{}
}
