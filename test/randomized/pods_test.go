// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"context"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// ordinary is the label of Pods that may be evicted, unless a budget protects them for a while.
var ordinary = map[string]string{"app": "ordinary"}

// everyNode is a number of replicas larger than any number of nodes here.
const everyNode = 16

// runPods creates a Deployment with one Pod on each node that takes Pods. Without Pods no removal does harm. If a drained node
// becomes schedulable again, it has a Pod again within a second. A drain that evicts Pods takes core 20 seconds longer, so some
// lives have no Pods.
func (l *life) runPods(ctx context.Context) error {
	if l.seed%4 == 0 || l.plan.short && l.seed%2 == 0 {
		return nil
	}
	l.logf("with Pods")
	return l.workload.Create(ctx, suite.OnePodPerNode(ordinary["app"], everyNode))
}
