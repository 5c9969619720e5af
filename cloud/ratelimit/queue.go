// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"cmp"
	"slices"
	"time"
)

// Class is the purpose of a call. It decides which call goes first.
type Class int

// The classes of calls.
const (
	Mutation Class = iota + 1 // changes or deletes something that exists
	Creation                  // creates something. Goes behind mutations
	Read                      // looks something up
	Poll                      // polls a job
	Login                     // a request of a login. All others wait for it. See ReserveLogin
)

// String returns the name of the class, for metrics.
func (c Class) String() string {
	names := []string{"unknown", "mutation", "creation", "read", "poll", "login"}
	if c < 0 || int(c) >= len(names) {
		c = 0
	}
	return names[c]
}

// isMutating reports whether a crash may leave a call of the class in doubt.
func (c Class) isMutating() bool { return c == Mutation || c == Creation }

// placeKey identifies a place. Flows that come and go with Reserve have serial 0 and one place per class.
type placeKey struct {
	flow   string
	class  Class
	serial int
}

// place is one call's position in the queue.
type place struct {
	key      placeKey
	number   int  // in the order of arrival
	job      *job // nil for any other call
	since    time.Time
	keep     time.Time // after which it is given up. Zero means never
	awake    time.Time // from which its owner can use a token
	wake     func()    // called when a token is set aside. Nil if the owner comes by itself when it is awake
	until    time.Time // how long a token is set aside
	allotted bool      // a token is set aside for it
	left     bool
}

// due returns the time by which places of a class are ordered.
func (p *place) due() time.Time {
	if p.job != nil {
		return p.job.due()
	}
	return p.since
}

// waited returns how long the place has waited for a token that it could have used.
func (p *place) waited(now time.Time) time.Duration {
	since := p.since
	if p.job != nil {
		since = later(since, p.job.asked.Add(pollInterval))
	}
	return max(now.Sub(since), 0)
}

// hold returns how long a token is set aside for the place. The tokens of a login add up until there are enough, while its
// places are kept.
func (p *place) hold() time.Duration {
	if p.key.class == Login {
		return placeGrace
	}
	return asideTime
}

func (p *place) before(other *place) bool {
	return cmp.Or(p.due().Compare(other.due()), cmp.Compare(p.number, other.number)) < 0
}

// maxCredit bounds the tokens that a class may take at once because it took fewer than its share before. An overdue poll uses
// all of it, so overdue polls get half of the polls' share.
const maxCredit = 2

// queue orders places in a lane per class.
type queue struct {
	places map[placeKey]*place
	lanes  map[Class]*lane
	aside  []*place          // places that have a token set aside, in the order in which they got it
	credit map[Class]float64 // tokens of a class's guaranteed share that the class has not used
	number int
	swept  time.Time
}

func newQueue() queue {
	return queue{
		places: map[placeKey]*place{},
		credit: map[Class]float64{},
		lanes:  map[Class]*lane{Login: newLane(), Mutation: newLane(), Creation: newLane(), Read: newLane(), Poll: newLane()},
	}
}

// place returns the flow's place, or makes one.
func (q *queue) place(key placeKey, job *job, now time.Time) *place {
	if _, known := q.lanes[key.class]; !known {
		key.class = Read
	}
	p := q.places[key]
	if p == nil {
		q.number++
		p = &place{key: key, number: q.number, since: now}
		q.places[key] = p
		q.lanes[key.class].push(p)
	}
	p.job = job
	return p
}

// keepFor keeps the place until a time. A place that was given up starts again at the end of its lane.
func (q *queue) keepFor(p *place, until time.Time) {
	if p.left {
		p.left = false
		q.places[p.key] = p
		q.lanes[p.key.class].push(p)
	}
	if p.key.serial == 0 {
		p.keep = until
	}
}

// allot sets a token aside for the place.
func (q *queue) allot(p *place, until time.Time) {
	p.allotted, p.until = true, until
	q.aside = append(q.aside, p)
}

// unallot frees the token that was set aside for the place.
func (q *queue) unallot(p *place) {
	p.allotted = false
	q.aside = slices.DeleteFunc(q.aside, func(other *place) bool { return other == p })
}

// revoke frees the place's token, and puts the place back where it was.
func (q *queue) revoke(p *place) {
	q.unallot(p)
	q.lanes[p.key.class].putBack(p)
}

// leave takes the place out of the queue. A token that was set aside for it is free again.
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

// sweep gives up the places whose flows did not come back. A token is set aside for a short time only. After that the place gets
// a token as soon as its owner asks again.
func (q *queue) sweep(now time.Time) {
	for _, p := range slices.Clone(q.aside) {
		if now.After(p.until) && p.key.serial == 0 {
			q.revoke(p)
			p.awake = now.Add(maxGateClosed)
		}
	}
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

// next picks the place for one token: logins, then mutations, creations, reads, and polls that are likely useful. Reads and polls
// get their guaranteed share before that. A token that the bucket cannot hold goes to any poll.
func (q *queue) next(now time.Time, mayOpen func(Class) bool, overflows bool) *place {
	awake := func(p *place) bool { return p.awake.Before(now.Add(asideTime)) } // or soon
	likely := func(p *place) bool { return awake(p) && p.job.isLikely(now) }
	overdue := func(p *place) bool { return awake(p) && p.job.isOverdue(now) }
	pollable := func(p *place) bool { return awake(p) && p.job.isPollable(now) }
	for _, rule := range []struct {
		applies bool
		class   Class
		ready   func(*place) bool
		cost    float64 // of the class's credit
	}{
		{true, Login, awake, 0},
		{q.credit[Poll] >= 1, Poll, likely, 1},
		{q.credit[Poll] >= maxCredit, Poll, overdue, maxCredit},
		{q.credit[Read] >= 1, Read, awake, 1},
		{mayOpen(Mutation), Mutation, awake, 0},
		{mayOpen(Creation), Creation, awake, 0},
		{true, Read, awake, 1},
		{true, Poll, likely, 1},
		{overflows, Poll, pollable, 1},
	} {
		if !rule.applies {
			continue
		}
		if p := q.lanes[rule.class].take(rule.ready); p != nil {
			q.credit[rule.class] = max(q.credit[rule.class]-rule.cost, 0)
			return p
		}
	}
	return nil
}

// addCredit adds the guaranteed shares of new tokens to the credit.
func (q *queue) addCredit(tokens float64) {
	for class, share := range guaranteed {
		q.credit[class] = min(q.credit[class]+tokens*share, maxCredit)
	}
}

// wakeable reports whether a place waits whose owner sleeps until it is woken.
func (q *queue) wakeable() bool {
	for _, p := range q.places {
		if p.wake != nil && !p.allotted {
			return true
		}
	}
	return false
}

// opened returns the number of tokens set aside for calls of the class.
func (q *queue) opened(class Class) (count int) {
	for _, p := range q.aside {
		if p.key.class == class {
			count++
		}
	}
	return count
}

// ahead estimates how many tokens are handed out before the place gets one.
func (q *queue) ahead(p *place) float64 {
	rank := float64(q.lanes[p.key.class].rank(p))
	before := 0.0
	switch p.key.class {
	case Login:
		return rank
	case Mutation, Creation:
		if p.key.class == Creation {
			rank += float64(q.lanes[Mutation].size)
		}
		others := min(float64(q.lanes[Read].size), rank*guaranteed[Read]) + min(float64(q.lanes[Poll].size), rank*guaranteed[Poll])
		return rank + others/(1-guaranteed[Read]-guaranteed[Poll])
	case Poll:
		before = float64(q.lanes[Read].size)
	}
	before += float64(q.lanes[Mutation].size + q.lanes[Creation].size)
	return min(rank+before, (rank+1)/guaranteed[p.key.class])
}
