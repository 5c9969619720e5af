// SPDX-License-Identifier: Apache-2.0

package claims

// decideSize decides whether the portal is to be asked for another number of workers. Up at once; down only as far as
// drained Machines and nodes without a Machine go, when nothing drains any more, and never below what is desired.
func (v View) decideSize(p *Plan, claims []claim, free []Node) {
	size := v.Size
	if size < 0 {
		size = len(v.Nodes)
	}
	for _, c := range claims {
		if c.Deleting && c.node != nil && (c.state == Draining || v.startsDrain(p, c)) {
			p.Draining = append(p.Draining, c.Name)
		}
	}
	if v.Operation != Idle {
		return
	}
	switch {
	case v.Desired > size:
		p.Scale, p.Size = true, v.Desired
	case v.Desired < size:
		v.decideDown(p, claims, free, size)
	}
}

func (v View) decideDown(p *Plan, claims []claim, free []Node, size int) {
	if len(p.Draining) > 0 {
		p.DrainsFirst = true
		return
	}
	leaving := len(free)
	for _, c := range claims {
		if c.state == Drained && c.node != nil {
			leaving++
		}
	}
	leaving = min(leaving, size-v.Desired)
	if p.Unbound > 0 || leaving <= 0 {
		return // Machines are still to be deleted, or to be bound
	}
	p.Scale, p.Size = true, size-leaving
}

func (v View) startsDrain(p *Plan, c claim) bool {
	for _, m := range p.Moves {
		if m.Kind == StartDrain && m.Machine == c.Name {
			return true
		}
	}
	return false
}
