// SPDX-License-Identifier: Apache-2.0

package cloud

import "slices"

// lane is a queue in which flows take turns: whoever has many calls waiting does not hold up the one who has one.
type lane struct {
	turns []string // flows with waiting places, whose turn is next first
	flows map[string][]*place
	size  int
}

func newLane() *lane { return &lane{flows: map[string][]*place{}} }

func (l *lane) push(p *place) {
	flow := p.key.flow
	if len(l.flows[flow]) == 0 {
		l.turns = append(l.turns, flow)
	}
	l.flows[flow] = append(l.flows[flow], p)
	l.size++
}

// pushFront puts the place before all others.
func (l *lane) pushFront(p *place) {
	flow := p.key.flow
	if turn := slices.Index(l.turns, flow); turn >= 0 {
		l.turns = slices.Delete(l.turns, turn, turn+1)
	}
	l.turns = slices.Insert(l.turns, 0, flow)
	l.flows[flow] = slices.Insert(l.flows[flow], 0, p)
	l.size++
}

// pop takes the first place of the flow whose turn it is; nil when the lane is empty.
func (l *lane) pop() *place {
	if len(l.turns) == 0 {
		return nil
	}
	flow := l.turns[0]
	p := l.flows[flow][0]
	l.remove(p)
	if len(l.flows[flow]) > 0 { // behind the others
		l.turns = append(l.turns[1:], flow)
	}
	return p
}

func (l *lane) remove(p *place) {
	flow := p.key.flow
	i := slices.Index(l.flows[flow], p)
	if i < 0 {
		return
	}
	l.size--
	l.flows[flow] = slices.Delete(l.flows[flow], i, i+1)
	if len(l.flows[flow]) == 0 {
		delete(l.flows, flow)
		turn := slices.Index(l.turns, flow)
		l.turns = slices.Delete(l.turns, turn, turn+1)
	}
}

// rank is how many places are served before this one, as things stand.
func (l *lane) rank(p *place) int {
	round := slices.Index(l.flows[p.key.flow], p)
	before := 0
	for i, flow := range l.turns {
		waiting := len(l.flows[flow])
		if flow == p.key.flow {
			before += round
			if waiting == l.size { // the only flow
				return before
			}
			return before + l.later(i, round)
		}
		before += min(waiting, round+1)
	}
	return before
}

// later counts the places of the flows behind position i that come within the given number of rounds.
func (l *lane) later(i, rounds int) int {
	count := 0
	for _, flow := range l.turns[i+1:] {
		count += min(len(l.flows[flow]), rounds)
	}
	return count
}
