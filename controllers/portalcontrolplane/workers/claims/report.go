// SPDX-License-Identifier: Apache-2.0

package claims

// report sets the fields that report what the plan waits for.
func (p *planner) report() {
	for _, c := range p.claims {
		switch {
		case c.Deleting:
			if c.at != nil && (c.state == stateDraining || c.PreDrain && !c.want.PreDrain) {
				p.plan.Draining = append(p.plan.Draining, c.Name)
			}
		case c.mismatched() && !c.Outdated:
			p.plan.Mismatched = append(p.plan.Mismatched, c.Name)
		case c.at != nil && !c.at.Ready:
			p.plan.NotReady = append(p.plan.NotReady, c.at.Name)
		}
	}
	p.reportNodes()
}

func (p *planner) reportNodes() {
	for _, n := range p.workers {
		switch {
		case n.drained():
			p.plan.Drained = append(p.plan.Drained, n.Name)
		case (n.leaving || n.instead) && n.drainingOrDrained():
			p.plan.DrainingNodes = append(p.plan.DrainingNodes, n.Name)
		case n.free():
			p.plan.Free++
			if n.pooled && !n.Ready {
				p.plan.NotReady = append(p.plan.NotReady, n.Name)
			}
		}
	}
	p.plan.Free = max(0, p.plan.Free-min(p.members(), p.poolReplicas()))
}
