// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"fmt"
	"time"
)

// loginTickets are the tickets of one login, in the order of its requests.
type loginTickets struct{ left *[]Ticket }

// next returns a context under which the next request of the login spends its ticket. Without one the request takes its own.
func (l loginTickets) next(ctx context.Context) context.Context {
	if len(*l.left) == 0 {
		return withoutTicket(ctx)
	}
	ticket := (*l.left)[0]
	*l.left = (*l.left)[1:]
	return WithTicket(ctx, ticket)
}

// release gives back the tickets of requests that were not needed.
func (l loginTickets) release() {
	for _, t := range *l.left {
		t.Release()
	}
}

// reserveLogin grants the tickets of all requests of a login at once, or none. While it waits, the tokens that are set aside for
// it add up: nothing goes before a login. Each client has places of its own. An account that never holds so many tokens grants
// what it can hold.
func (g *Governor) reserveLogin(ctx context.Context, client any, requests int, wait bool) (loginTickets, error) {
	for {
		tickets, at := g.claimLogin(fmt.Sprintf("login %p", client), requests)
		if tickets != nil {
			return loginTickets{&tickets}, nil
		}
		if !wait {
			return loginTickets{}, waitError(at)
		}
		// A second at most, since a gate may open and a queue empty earlier than foreseen.
		if soon := time.Now().Add(time.Second); soon.Before(at) {
			at = soon
		}
		if err := sleep(ctx, at); err != nil {
			return loginTickets{}, err
		}
	}
}

// claimLogin returns the tickets if there is a token for each, or the time at which that may be so.
func (g *Governor) claimLogin(flow string, requests int) ([]Ticket, time.Time) {
	g.mu.Lock()
	defer g.unlock()
	now := time.Now()
	g.advance(now)
	places := make([]*place, min(requests, int(g.bucket.capacity())))
	for i := range places {
		places[i] = g.queue.place(placeKey{flow: fmt.Sprintf("%s/%d", flow, i), class: login}, nil, now)
		g.queue.keepFor(places[i], now.Add(placeGrace))
		places[i].awake = now
	}
	g.allot(now)
	at, all := now, g.gate.open(now)
	for _, p := range places {
		at = later(at, g.expect(p, now))
		all = all && p.allotted
	}
	if !all {
		for _, p := range places {
			p.awake, p.until = at, at.Add(p.hold())
			g.queue.keepFor(p, at.Add(placeGrace))
		}
		return nil, at
	}
	tickets := make([]Ticket, len(places))
	for i, p := range places {
		g.queue.leave(p)
		tickets[i] = Ticket{g.grant(p, now)}
	}
	return tickets, time.Time{}
}

// charge takes tokens for requests that were made before it was known that they are the account's.
func (g *Governor) charge(requests int) {
	g.mu.Lock()
	defer g.unlock()
	g.advance(time.Now())
	g.bucket.level -= float64(requests)
}
