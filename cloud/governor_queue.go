// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"slices"
	"time"
)

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
	aside     []*place          // those that have a token set aside, in the order in which they got it
	mutations int               // of which for mutations
	credit    map[Class]float64 // towards a class's guaranteed share
	serial    int
	swept     time.Time
}

func newQueue() queue {
	return queue{
		places: map[placeKey]*place{},
		credit: map[Class]float64{},
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
	q.aside = append(q.aside, p)
	if p.key.class == Mutation {
		q.mutations++
	}
}

// unallot frees the token that was set aside for the place.
func (q *queue) unallot(p *place) {
	p.allotted = false
	q.aside = slices.DeleteFunc(q.aside, func(other *place) bool { return other == p })
	if p.key.class == Mutation {
		q.mutations--
	}
}

// revoke frees the token set aside last, because there is none; its place is the first of its class again.
func (q *queue) revoke() {
	p := q.aside[len(q.aside)-1]
	q.unallot(p)
	q.lanes[p.key.class].pushFront(p)
}

// leave takes the place out of the queue; a token that was set aside is free again.
func (q *queue) leave(p *place) {
	if p.left {
		return
	}
	p.left = true
	delete(q.places, p.key)
	if p.allotted {
		q.unallot(p)
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

// next picks the place for one token: logins, then mutations, reads, polls; but classes behind others that wait get
// their share of the tokens.
func (q *queue) next(maxOpen int) *place {
	if p := q.lanes[login].pop(); p != nil {
		return p
	}
	for _, class := range []Class{Poll, Read} {
		q.credit[class] = min(q.credit[class]+guaranteed[class], 2)
	}
	for _, class := range []Class{Poll, Read} {
		if q.credit[class] >= 1 {
			if p := q.lanes[class].pop(); p != nil {
				return q.charge(p)
			}
		}
	}
	// Tokens set aside for mutations are bounded, or mutations that must not be opened yet would hold them all.
	if p := q.popMutation(maxOpen); p != nil {
		return p
	}
	for _, class := range []Class{Read, Poll} {
		if p := q.lanes[class].pop(); p != nil {
			return q.charge(p)
		}
	}
	return nil
}

// waits reports whether a place waits for a token.
func (q *queue) waits() bool {
	for _, lane := range q.lanes {
		if lane.size > 0 {
			return true
		}
	}
	return false
}

func (q *queue) popMutation(maxOpen int) *place {
	if q.mutations >= maxOpen {
		return nil
	}
	return q.lanes[Mutation].pop()
}

func (q *queue) charge(p *place) *place {
	q.credit[p.key.class] = max(q.credit[p.key.class]-1, 0)
	return p
}

// ahead estimates how many tokens are handed out before the place gets one.
func (q *queue) ahead(p *place) float64 {
	rank := float64(q.lanes[p.key.class].rank(p))
	switch p.key.class {
	case login:
		return rank
	case Mutation:
		others := min(float64(q.lanes[Read].size), rank*guaranteed[Read]) + min(float64(q.lanes[Poll].size), rank*guaranteed[Poll])
		return rank + others/(1-guaranteed[Read]-guaranteed[Poll])
	}
	before := float64(q.lanes[Mutation].size)
	if p.key.class == Poll {
		before += float64(q.lanes[Read].size)
	}
	return min(rank+before, (rank+1)/guaranteed[p.key.class])
}
