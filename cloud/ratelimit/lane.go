// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"slices"
	"strings"
)

// lane is a queue in which tenants take turns, so that a tenant with a thousand clusters does not get a thousand turns before one
// with ten. Within a tenant the earliest place is served first.
type lane struct {
	turns  []string // tenants with waiting places. The first one is served next
	places map[string][]*place
	size   int
}

func newLane() *lane { return &lane{places: map[string][]*place{}} }

// tenant returns the part of the flow's name before the first slash, usually a namespace.
func (p *place) tenant() string {
	tenant, _, _ := strings.Cut(p.key.flow, "/")
	return tenant
}

func (l *lane) push(p *place) {
	tenant := p.tenant()
	if len(l.places[tenant]) == 0 {
		l.turns = append(l.turns, tenant)
	}
	l.places[tenant] = append(l.places[tenant], p)
	l.size++
}

// putBack returns a place that was taken, and its tenant's turn with it.
func (l *lane) putBack(p *place) {
	l.push(p)
	l.turn(p.tenant(), 0)
}

// turn moves a tenant to a position among the turns.
func (l *lane) turn(tenant string, position int) {
	i := slices.Index(l.turns, tenant)
	l.turns = slices.Insert(slices.Delete(l.turns, i, i+1), position, tenant)
}

// take removes and returns the earliest ready place of the first tenant that has one, or nil.
func (l *lane) take(ready func(*place) bool) *place {
	for _, tenant := range l.turns {
		var first *place
		for _, p := range l.places[tenant] {
			if ready(p) && (first == nil || p.before(first)) {
				first = p
			}
		}
		if first == nil {
			continue
		}
		l.turn(tenant, len(l.turns)-1)
		l.remove(first)
		return first
	}
	return nil
}

func (l *lane) remove(p *place) {
	tenant := p.tenant()
	i := slices.Index(l.places[tenant], p)
	if i < 0 {
		return
	}
	l.size--
	l.places[tenant] = slices.Delete(l.places[tenant], i, i+1)
	if len(l.places[tenant]) == 0 {
		delete(l.places, tenant)
		l.turns = slices.DeleteFunc(l.turns, func(other string) bool { return other == tenant })
	}
}

// rank returns how many places are served before this one if all are ready and none comes or leaves.
func (l *lane) rank(p *place) int {
	tenant, round := p.tenant(), 0
	for _, other := range l.places[tenant] {
		if other.before(p) {
			round++
		}
	}
	before, passed := round, false
	for _, other := range l.turns {
		switch {
		case other == tenant:
			passed = true
		case passed:
			before += min(len(l.places[other]), round)
		default:
			before += min(len(l.places[other]), round+1)
		}
	}
	return before
}
