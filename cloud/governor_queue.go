// SPDX-License-Identifier: Apache-2.0

package cloud

import "time"

// Class is what a call is for; it decides who goes first.
type Class int

// The classes of calls.
const (
	Mutation Class = iota + 1 // creates or changes something; at most MaxOpen at one time
	Read                      // looks something up
	Poll                      // looks at a job
	login                     // everything waits for it
)

// String names the class, for metrics.
func (c Class) String() string {
	switch c {
	case Mutation:
		return "mutation"
	case Read:
		return "read"
	case Poll:
		return "poll"
	case login:
		return "login"
	}
	return "unknown"
}

// placeKey identifies a place. Flows that come and go with Reserve have serial 0 and one place per class.
type placeKey struct {
	flow   string
	class  Class
	serial int
}

// place is one call's position in the queue.
type place struct {
	key      placeKey
	since    time.Time
	keep     time.Time // after which it is given up
	allotted bool      // a token is set aside for it
	left     bool
}

// queue orders places: a lane per class, within a lane the flows take turns.
type queue struct {
	places    map[placeKey]*place
	lanes     map[Class]*lane
	allotted  int // tokens set aside
	mutations int // of which for mutations
	credit    float64
	readNext  bool // mutations and reads alternate
	serial    int
	swept     time.Time
}

func newQueue() queue {
	return queue{
		places: map[placeKey]*place{},
		lanes:  map[Class]*lane{login: newLane(), Mutation: newLane(), Read: newLane(), Poll: newLane()},
	}
}

// place finds the flow's place, or makes one at the end.
func (q *queue) place(key placeKey, now time.Time) *place {
	if _, known := q.lanes[key.class]; !known {
		key.class = Read
	}
	p := q.places[key]
	if p == nil {
		p = &place{key: key, since: now}
		q.places[key] = p
		q.lanes[key.class].push(p)
	}
	return p
}

// ownPlace makes a place that no other caller of the same flow shares.
func (q *queue) ownPlace(flow string, class Class, now time.Time) *place {
	q.serial++
	return q.place(placeKey{flow: flow, class: class, serial: q.serial}, now)
}

// keep holds the place until a time; one that was given up meanwhile starts anew at the end.
func (q *queue) keep(p *place, until time.Time) {
	if p.left {
		p.left = false
		q.places[p.key] = p
		q.lanes[p.key.class].push(p)
	}
	p.keep = until
}

// allot sets a token aside for the place.
func (q *queue) allot(p *place) {
	p.allotted = true
	q.count(p, 1)
}

func (q *queue) count(p *place, by int) {
	q.allotted += by
	if p.key.class == Mutation {
		q.mutations += by
	}
}

// leave takes the place out of the queue; a token that was set aside is free again.
func (q *queue) leave(p *place) {
	if p.left {
		return
	}
	p.left = true
	delete(q.places, p.key)
	if p.allotted {
		p.allotted = false
		q.count(p, -1)
	} else {
		q.lanes[p.key.class].remove(p)
	}
}

// sweep gives up the places whose flows did not come back.
func (q *queue) sweep(now time.Time) {
	if now.Sub(q.swept) < time.Second {
		return
	}
	q.swept = now
	for _, p := range q.places {
		if now.After(p.keep) && !p.keep.IsZero() {
			q.leave(p)
		}
	}
}

// next picks the place for one token: logins, then mutations and reads in turn, then polls; but every fifth token is
// for a poll if one waits.
func (q *queue) next(maxOpen int) *place {
	if p := q.lanes[login].pop(); p != nil {
		return p
	}
	q.credit = min(q.credit+pollShare, 1)
	if q.credit >= 1 {
		if p := q.lanes[Poll].pop(); p != nil {
			q.credit = 0
			return p
		}
	}
	if p := q.foreground(maxOpen); p != nil {
		return p
	}
	if p := q.lanes[Poll].pop(); p != nil {
		q.credit = 0
		return p
	}
	return nil
}

// foreground alternates between mutations and reads. Tokens set aside for mutations are bounded, or mutations that
// must not be opened yet would hold all tokens.
func (q *queue) foreground(maxOpen int) *place {
	order := [2]Class{Mutation, Read}
	if q.readNext {
		order = [2]Class{Read, Mutation}
	}
	for _, class := range order {
		if class == Mutation && q.mutations >= maxOpen {
			continue
		}
		if p := q.lanes[class].pop(); p != nil {
			q.readNext = class == Mutation
			return p
		}
	}
	return nil
}

// ahead estimates how many tokens are handed out before the place gets one.
func (q *queue) ahead(p *place) float64 {
	rank := float64(q.lanes[p.key.class].rank(p))
	foreground := float64(q.lanes[Mutation].size + q.lanes[Read].size + q.lanes[login].size)
	polls := float64(q.lanes[Poll].size)
	switch p.key.class {
	case login:
		return rank
	case Poll:
		return min(rank+foreground, (rank+1)/pollShare)
	case Read:
		rank += min(rank+1, float64(q.lanes[Mutation].size))
	default:
		rank += min(rank+1, float64(q.lanes[Read].size))
	}
	return rank + min(polls, rank*pollShare/(1-pollShare))
}
