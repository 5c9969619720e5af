// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"time"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// podsInterval is how often the Pods of an autoscaled cluster are read. They are not watched, because their number is not
// bounded.
const podsInterval = 10 * time.Second

// protect keeps the cluster autoscaler from choosing nodes that the portal would not remove. While more workers
// exist than the replicas ask for, all nodes are protected: a node that stays is idle for a moment, and would be chosen too.
// Otherwise the nodes behind a node that must not be removed, in the portal's order of removal, are protected. If the order is
// unknown, all nodes are. Of the nodes of the pool, at most the one that goes first is not protected, and only if the autoscaler can
// remove it (Pool.Shrinks). The autoscaler lowers the replicas without a word about the node that it has drained. So this has to be the one
// that goes.
func (p *planner) protect() {
	from := p.firstProtected()
	for i, n := range p.line {
		protected := i >= from || p.Autoscaled && n.pooled && (i > 0 || !p.Pool.Shrinks)
		if !n.ScaleDownSetByUser && protected != n.ScaleDownDisabled {
			n.want.ScaleDownDisabled = protected
			n.why.add("%s", p.protectionReason())
		}
	}
	if p.Autoscaled && p.Order != removal.Random {
		p.requeueAfter(podsInterval)
	}
}

// protectionReason is why nodes are protected from the autoscaler, or are no longer.
func (p *planner) protectionReason() string {
	switch {
	case !p.Autoscaled:
		return "the cluster autoscaler scales nothing here"
	case p.Order == removal.Random, p.surplus > 0, p.takesNodes():
		return "the cluster autoscaler may remove no node now: " + p.wanted()
	}
	return fmt.Sprintf("the cluster autoscaler may remove the nodes that the portal removes first (%s), up to one with a Pod that must stay", p.orderWords())
}

// firstProtected returns the index of the first node in the line that the autoscaler must not choose.
func (p *planner) firstProtected() int {
	if !p.Autoscaled {
		return len(p.line)
	}
	if p.Order == removal.Random || p.surplus > 0 || p.takesNodes() {
		return 0
	}
	if i := slices.IndexFunc(p.line, func(n *worker) bool { return n.Pinned }); i >= 0 {
		for i > 0 && p.alike(p.line[i-1], p.line[i]) {
			i--
		}
		return i
	}
	return len(p.line)
}
