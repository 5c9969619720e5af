// SPDX-License-Identifier: Apache-2.0

package cloud

import "context"

// maxWaitedReplays bounds how often a waiting client sends a rate-limited request again.
const maxWaitedReplays = 5

// governed spends a ticket for every request, and tells the governor what came of it.
type governed struct {
	standing *standing
	wait     bool
	next     handler
}

func (h *governed) do(ctx context.Context, c *call) (*answer, error) {
	for try := 0; ; try++ {
		t, err := h.spend(ctx, c)
		if err != nil {
			return nil, err
		}
		a, err := h.attempt(ctx, c, t)
		// A request that was rate-limited was not executed, unless its status leaves that open.
		if err == nil && h.wait && isRateLimited(a) && !refused(c, a).unknown && try < maxWaitedReplays {
			continue
		}
		return a, err
	}
}

// attempt sends the request for a ticket, and settles the ticket even if an observer panics.
func (h *governed) attempt(ctx context.Context, c *call, t *ticket) (a *answer, err error) {
	c.waited, c.sent = t.waited, false
	defer func() { t.governor.settle(t, c.sent, a) }()
	return h.next.do(ctx, c)
}

// spend uses the context's ticket, or one of its own.
func (h *governed) spend(ctx context.Context, c *call) (*ticket, error) {
	governor := h.standing.now()
	if t := ticketOf(ctx); t != nil {
		if ok, err := governor.spend(t); ok {
			return t, nil
		} else if err != nil && !h.wait {
			return nil, c.notSent(err)
		}
	}
	for {
		t, err := h.take(ctx, governor, c)
		if err != nil {
			return nil, c.notSent(err)
		}
		if ok, _ := governor.spend(t.t); ok {
			return t.t, nil
		} // the gate has just closed: the next ticket takes the time that it opens into account
	}
}

type flowKey struct{}

// WithFlow names the flow of the calls under the context that have no ticket. It is woken like one that called Reserve.
func WithFlow(ctx context.Context, flow string) context.Context {
	return context.WithValue(ctx, flowKey{}, flow)
}

// take gets a ticket for a call that came without: for the context's flow, or else its own address serves as flow,
// which nobody can wake.
func (h *governed) take(ctx context.Context, governor *Governor, c *call) (Ticket, error) {
	flow, named := ctx.Value(flowKey{}).(string)
	wake := governor.options.Wake
	if !named {
		flow, wake = c.route.method+c.path, nil
	}
	if h.wait {
		return governor.Wait(ctx, flow, c.route.class)
	}
	return governor.reserve(placeKey{flow: flow, class: c.route.class}, nil, wake)
}

// notSent names the call in an error that stopped it before the wire.
func (c *call) notSent(err error) error {
	if e := asError(err); e != nil {
		e.Endpoint = c.route.String()
	}
	return err
}
