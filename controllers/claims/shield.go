// SPDX-License-Identifier: Apache-2.0

package claims

import "time"

// remediatedTime is how long the next Machine of a remediated node stays shielded at least. A fault that shows on the Machine, not
// on the Node, needs that time to show again.
const remediatedTime = 10 * time.Minute

// shield keeps MachineHealthChecks away from Machines while the portal removes or replaces nodes. It lasts, for these Machines and
// for those that were bound to a node with a fault, until the node is healthy and the portal is at rest.
func (p *planner) shield() {
	changing := p.Operation == RemovingNodes || p.Operation == ReplacingNodes
	for _, c := range p.claims {
		if c.Deleting || c.ClaimNodeUID == "" {
			continue
		}
		switch {
		case changing && !c.Shielded && !c.Unhealthy && !p.has(Shield, c):
			p.add(Shield, c, nil)
		case !changing && c.Shielded && !p.has(Bind, c) && p.healthy(c):
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
