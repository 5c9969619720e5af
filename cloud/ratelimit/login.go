// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ReserveLogin grants the reservations of all requests of a login at once, or none and a *WaitError. While it waits, the tokens
// that are set aside for it add up, because nothing goes before a login. Each flow has places of its own. An account whose
// bucket holds fewer tokens gets as many reservations as the bucket holds.
func (l *Limiter) ReserveLogin(flow string, requests int) ([]*Reservation, error) {
	l.mu.Lock()
	defer l.unlock()
	now := time.Now()
	l.advance(now)
	places := make([]*place, min(requests, int(l.bucket.capacity())))
	for i := range places {
		places[i] = l.queue.place(placeKey{flow: fmt.Sprintf("%s/%d", flow, i), class: Login}, nil, now)
		l.queue.keepFor(places[i], now.Add(placeGrace))
		places[i].awake = now
	}
	l.allot(now)
	at, all := now, l.gate.open(now)
	for _, p := range places {
		at = later(at, l.expectedTurn(p, now))
		all = all && p.allotted
	}
	if !all {
		for _, p := range places {
			p.awake, p.until = at, at.Add(p.hold())
			l.queue.keepFor(p, at.Add(placeGrace))
		}
		return nil, &WaitError{RetryAt: at}
	}
	reservations := make([]*Reservation, len(places))
	for i, p := range places {
		l.queue.leave(p)
		reservations[i] = l.grant(p, now)
	}
	return reservations, nil
}

// WaitLogin is ReserveLogin for callers that may block. It returns with the reservations, or with the error of the context when
// that ends.
func (l *Limiter) WaitLogin(ctx context.Context, flow string, requests int) ([]*Reservation, error) {
	for {
		reservations, err := l.ReserveLogin(flow, requests)
		wait, refused := errors.AsType[*WaitError](err)
		if !refused {
			return reservations, nil
		}
		select {
		// A gate may open and a queue may empty earlier than expected, so look again within a second.
		case <-time.After(min(time.Until(wait.RetryAt), time.Second)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
