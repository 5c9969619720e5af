// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// joinTime is how long drained Machines wait for further drains to join them in one call to the portal.
const joinTime = time.Minute

// fateTime is how long after its drain a Machine waits to see whether its node is among those that the portal has removed.
const fateTime = 5 * time.Minute

// decideSize decides whether the portal is to be asked for another number of workers: up at once; down only by nodes
// that are drained or belong to no Machine, and never below what is desired.
func (v View) decideSize(p *Plan, claims []claim, going map[string]bool, free []Node) {
	size := v.Size
	if size < 0 {
		size = len(v.Nodes)
	}
	for _, c := range claims {
		if c.Deleting && c.node != nil && (c.state == Draining || p.has(StartDrain, c.Name)) {
			p.Draining = append(p.Draining, c.Name)
		}
	}
	if v.Operation != Idle || v.fateUnknown(p, claims) {
		return
	}
	switch {
	case v.Desired > size:
		p.Scale, p.Size = true, v.Desired
	case v.Size < 0 && v.Desired == size && slices.ContainsFunc(v.Nodes, func(n Node) bool { return !n.Ready }):
		p.Scale, p.Size = true, v.Desired // of those that were counted, some may be gone: the portal knows
	case v.Desired < size:
		v.decideDown(p, claims, going, free, size)
	}
}

// fateUnknown tells whether more Nodes are there than a scale down was to leave, while drained Machines wait: which of the
// nodes are gone is not seen yet. If that stays so, somebody else has added nodes.
func (v View) fateUnknown(p *Plan, claims []claim) (unknown bool) {
	if v.Size < 0 || len(v.Nodes) <= v.Size || len(v.Before) == 0 {
		return false
	}
	for _, c := range claims {
		if c.state != Drained || c.node == nil {
			continue
		}
		if since := v.Now.Sub(c.DrainedAt); since < fateTime || c.DrainedAt.IsZero() {
			unknown = true
			p.lookAgain(fateTime - since)
		}
	}
	return unknown
}

// drained are the nodes that are drained to go, and since when.
func (v View) drained(claims []claim) map[string]time.Time {
	drained := map[string]time.Time{}
	for _, c := range claims {
		if c.state == Drained && c.node != nil && !v.DownRefused {
			drained[c.node.UID] = c.DrainedAt
		}
	}
	return drained
}

// decideDown sends all that may go in one call. While something still drains, those that are expected to go before it
// go after a minute; a drain that blocks holds those behind it.
func (v View) decideDown(p *Plan, claims []claim, going map[string]bool, free []Node, size int) {
	drained := v.drained(claims)
	if v.Adopted {
		free = nil
	}
	leaving := len(free) + len(drained)
	joining := len(p.Draining) > 0 || approaching(claims, going)
	waits := joining || (p.Unbound > 0 || v.moreToGo(claims)) && !v.overdue(drained)
	if waits {
		for _, at := range drained {
			p.lookAgain(joinTime - v.Now.Sub(at))
		}
		leaving = v.ahead(drained, free)
	}
	leaving = min(leaving, size-v.Desired)
	if v.Size < 0 && !v.Adopted && leaving > 0 {
		// Of a size that was counted, some may be gone: less than all the way down might be a way up.
		if waits {
			return
		}
		leaving = size - v.Desired
	}
	if leaving > 0 {
		p.Scale, p.Size = true, size-leaving
	}
}

// ahead counts the nodes in a row, as they are expected to go, that may go, if the first of them has waited long enough for others to join.
func (v View) ahead(drained map[string]time.Time, free []Node) (count int) {
	waited := false
	for _, n := range v.victims(len(v.Nodes)) {
		at, isDrained := drained[n.UID]
		isFree := slices.ContainsFunc(free, func(f Node) bool { return f.UID == n.UID })
		if !isDrained && !isFree {
			break
		}
		waited = waited || isDrained && !at.IsZero() && v.Now.Sub(at) >= joinTime // core writes the time after the condition
		count++
	}
	if !waited {
		return 0
	}
	return count
}

// approaching tells whether a held Machine that is to go is on its way to the node that it is to go with, which takes
// some passes.
func approaching(claims []claim, going map[string]bool) bool {
	return slices.ContainsFunc(claims, func(c claim) bool { return c.state == Held && going[c.Name] })
}

// overdue tells whether all that is drained has waited for a minute. Whatever else is to be deleted may wait for these
// Machines in its turn: in a rollout, core deletes no further ones before some are gone.
func (v View) overdue(drained map[string]time.Time) bool {
	for _, at := range drained {
		if at.IsZero() || v.Now.Sub(at) < joinTime {
			return false
		}
	}
	return len(drained) > 0
}

// moreToGo tells whether there are more live Machines than are desired: some are still to be deleted.
func (v View) moreToGo(claims []claim) bool {
	live := 0
	for _, c := range claims {
		if !c.Deleting && !c.Foreign {
			live++
		}
	}
	return live > v.Desired
}

func (p *Plan) has(kind MoveKind, machine string) bool {
	return slices.ContainsFunc(p.Moves, func(m Move) bool { return m.Kind == kind && m.Machine == machine })
}
