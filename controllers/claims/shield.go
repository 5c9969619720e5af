// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// remediatedTime is how long the next Machine of a remediated node stays shielded at least. A fault that shows on the Machine,
// not on the Node, needs that time to show again.
const remediatedTime = 10 * time.Minute

// shield keeps MachineHealthChecks from remediating Machines while the portal removes or replaces nodes. These Machines, and
// those that were bound to a faulty node, stay shielded until the node is healthy and the portal is at rest.
func (p *planner) shield() {
	for _, c := range p.claims {
		if c.Deleting || c.ClaimNodeUID == "" {
			continue
		}
		switch {
		case p.takesNodes() && !c.Shielded && !c.Unhealthy && !p.has(Shield, c):
			p.add(Shield, c, nil)
		case !p.takesNodes() && c.Shielded && !p.has(Bind, c) && p.healthy(c):
			if !c.at.Remediated.IsZero() {
				p.add(ForgetRemediated, c, c.at)
			}
			p.add(Unshield, c, nil)
		}
	}
}

// healthy reports whether no MachineHealthCheck has a reason to remediate the Machine. It looks at the Node that nodeRef names.
func (p *planner) healthy(c *claim) bool {
	if c.at == nil || c.at.faulty() || c.Suspect || c.NodeRef != c.at.Name {
		return false
	}
	return c.at.Remediated.IsZero() || p.past(c.at.Remediated, remediatedTime)
}

// faulty reports whether a Machine on the Node would be remediated.
func (n Node) faulty() bool { return !n.Ready || n.Sick }

// podsAgain is how often the Pods of an autoscaled cluster are read. They are not watched, because their number is not bounded.
const podsAgain = 10 * time.Second

// freeze keeps the cluster autoscaler from choosing nodes that the portal would not remove. While more workers exist than the
// replicas ask for, all nodes are frozen: a node that stays is idle for a moment, and would be chosen too. Otherwise the nodes
// are frozen that come, in the portal's order of removal, after a node that must not go. Without an order, all are frozen. The
// nodes of the pool are always frozen: the autoscaler can remove a node only by its Machine, and would evict their Pods again and
// again.
func (p *planner) freeze() {
	line := p.removalOrder()
	from := p.frozenFrom(line)
	for i, n := range line {
		freezes := i >= from || p.Autoscaled && n.pooled
		switch {
		case n.ScaleDownSetByUser:
		case freezes && !n.Frozen:
			p.add(Freeze, nil, n)
		case !freezes && n.Frozen:
			p.add(Unfreeze, nil, n)
		}
	}
	if p.Autoscaled && p.Order != Random {
		p.lookAgain(podsAgain)
	}
}

// frozenFrom returns the index of the first node in the line that the autoscaler must not choose.
func (p *planner) frozenFrom(line []*place) int {
	if !p.Autoscaled {
		return len(line)
	}
	if p.Order == Random || p.surplus > 0 || p.takesNodes() {
		return 0
	}
	if i := slices.IndexFunc(line, func(n *place) bool { return n.Pinned }); i >= 0 {
		return i
	}
	return len(line)
}
