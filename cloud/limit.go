// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"net/http"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// maxWaitedReplays bounds how often a waiting client sends a rate-limited request again.
const maxWaitedReplays = 5

// limited spends a reservation for every request, and passes the response to the limiter.
type limited struct {
	account *clientAccount
	wait    bool
	next    handler
}

func (h *limited) do(ctx context.Context, c *call) (*answer, error) {
	for try := 0; ; try++ {
		r, err := h.spend(ctx, c)
		if err != nil {
			return nil, err
		}
		a, err := h.sendFor(ctx, c, r)
		// A request that was rate-limited was not executed, unless its status leaves that open.
		if err == nil && h.replays(ctx, c) && isRateLimited(a) && !refused(c, a).unknown && try < maxWaitedReplays {
			continue
		}
		return a, err
	}
}

// replays reports whether a waiting client sends a rate-limited request again. A caller that brings a reservation waits for its turns
// itself, with a context that may end then, as the context of a change must not.
func (h *limited) replays(ctx context.Context, c *call) bool {
	return h.wait && (ctx.Value(reservationKey{}) == nil || c.route.class == ratelimit.Login)
}

// sendFor sends the request for a reservation, and settles the reservation even if an observer panics.
func (h *limited) sendFor(ctx context.Context, c *call, r *ratelimit.Reservation) (a *answer, err error) {
	c.waited, c.sent = r.Waited(), false
	defer func() { r.Settle(c.sent, h.account.evidence(a.response())) }()
	return h.next.do(ctx, c)
}

// response returns what the limiter learns from the answer.
func (a *answer) response() *ratelimit.Response {
	if a == nil {
		return nil
	}
	return &ratelimit.Response{Header: a.header, At: a.at, Limited: isRateLimited(a)}
}

// isRateLimited reports whether the rate limit refused the request: by the status, or by the code of a refusal with any status.
func isRateLimited(a *answer) bool {
	if a.ok() {
		return false
	}
	e, _ := parseError(a.body, nil)
	return classify(e.Code, a.status) == kindRateLimited || a.status == http.StatusTooManyRequests
}

// spend spends the next of the context's reservations, or one of its own.
func (h *limited) spend(ctx context.Context, c *call) (*ratelimit.Reservation, error) {
	limiter := h.account.current()
	reserved, _ := ctx.Value(reservationKey{}).([]*ratelimit.Reservation)
	for _, r := range reserved {
		if ok, err := limiter.Spend(r); ok {
			return r, nil
		} else if err != nil && !h.replays(ctx, c) {
			return nil, c.notSent(limitError(err))
		}
	}
	for {
		r, err := h.take(ctx, limiter, c)
		if err != nil {
			return nil, c.notSent(limitError(err))
		}
		if ok, _ := limiter.Spend(r); ok {
			return r, nil
		} // the gate has just closed. The next reservation waits until it opens
	}
}

// take reserves for a call without a reservation: for the context's flow, or else under the call's own address, which Wake does not know.
func (h *limited) take(ctx context.Context, limiter *ratelimit.Limiter, c *call) (*ratelimit.Reservation, error) {
	flow, named := ctx.Value(flowKey{}).(string)
	if !named {
		flow = c.route.method + c.path
	}
	switch {
	case h.wait:
		return limiter.Wait(ctx, flow, c.route.class)
	case named:
		return limiter.Reserve(flow, c.route.class)
	}
	return limiter.ReserveWithoutWake(flow, c.route.class)
}

// notSent names the call in an error that stopped it before the wire.
func (c *call) notSent(err error) error {
	if e := asError(err); e != nil {
		e.Endpoint = c.route.String()
	}
	return err
}

// limitError makes an *Error of an error of the limiter. Nothing was sent.
func limitError(err error) error {
	if err == nil {
		return nil
	}
	if wait, ok := errors.AsType[*ratelimit.WaitError](err); ok {
		return waitError(wait.RetryAt)
	}
	return &Error{Message: reason(err), kind: kindUnavailable, cause: err}
}

type flowKey struct{}

// WithFlow names the flow of the calls under the context that have no reservation. The flow is woken like one that called Reserve.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}

type reservationKey struct{}

// WithReservation makes the next requests under the context spend the reservations, one each. Later requests, and a login that has
// to come first, take reservations of their own. Config.Wait sends none of them again after a refusal by the rate limit.
func WithReservation(ctx context.Context, r ...*ratelimit.Reservation) context.Context {
	return context.WithValue(ctx, reservationKey{}, r)
}
