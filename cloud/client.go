// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// Client talks to one portal as one user. It is safe for concurrent use. Methods return *Error.
type Client struct {
	name    string // what it prints as
	chain   handler
	session *session
	account *clientAccount
	hidden  func() []string         // secrets of the configuration
	note    func(gap, shape string) // Config.ObserveShape
	close   func()
	address string
}

// handler is one link of the request chain. doc.go explains the order.
type handler interface {
	do(ctx context.Context, c *call) (*answer, error)
}

const defaultUserAgent = "cluster-api-provider-portal"

// New checks the configuration and returns a client. It sends nothing. Its errors are IsInvalid
// and name the field: baseURL, email, password, caBundle or totpSeed.
func New(config Config) (*Client, error) {
	config = config.trimmed()
	base, err := config.endpoint()
	if err != nil {
		return nil, err
	}
	roots, err := config.roots()
	if err != nil {
		return nil, err
	}
	seed, err := config.seed()
	if err != nil {
		return nil, err
	}
	membership := newClientAccount(config)
	if config.ObserveShape == nil {
		config.ObserveShape = func(string, string) {}
	}
	wire := &exchange{base: base, userAgent: cmp.Or(config.UserAgent, defaultUserAgent), mutations: config.Transport, others: config.Transport}
	if config.Transport == nil {
		dial := newDial(config.Hosts, base)
		wire.mutations, wire.others = newTransport(roots, dial, true), newTransport(roots, dial, false)
	}
	below := &limited{
		account: membership,
		wait:    config.Wait,
		next:    &observed{observe: config.Observe, next: wire},
	}
	password := conceal(config.Password)
	s := &session{authenticator: &authenticator{
		email:    config.Email,
		password: password,
		next:     below,
		account:  membership,
		wait:     config.Wait,
		observe:  config.ObserveLogin,
		factor:   &secondFactor{seed: seed, hide: password, ask: config.OTP, wait: config.Wait, note: config.ObserveShape, next: below},
	}}
	return &Client{
		name:    config.String(),
		address: Address(config.BaseURL),
		chain:   &authorized{session: s, next: below},
		session: s,
		account: membership,
		note:    config.ObserveShape,
		hidden:  func() []string { return []string{password.reveal(), seed.reveal()} },
		close:   wire.close,
	}, nil
}

// UserID returns the user.id of the login, and logs in if necessary. A 404 of the portal depends on the user who asks
// (specification, "HTTP status codes"). If the last login was refused, that refusal is the error, even while an older token is
// still valid.
func (c *Client) UserID(ctx context.Context) (string, error) {
	login, err := c.session.lastLogin(ctx)
	return login.UserID, err
}

// Login returns the result of the last login, and logs in if necessary. Its errors are those of UserID.
func (c *Client) Login(ctx context.Context) (Login, error) { return c.session.lastLogin(ctx) }

// Limiter returns the rate limiter of the client's account. Until a login has worked, the client has one of its own.
func (c *Client) Limiter() *ratelimit.Limiter { return c.account.current() }

// Reserve grants a reservation for one call of a flow (such as a cluster) and class. If it is not the flow's turn, the error is
// IsRateLimited, and RetryAt says when to come back. If no token can be had, the error is that of the last login. Reserve never
// waits. See ratelimit.Limiter.
func (c *Client) Reserve(flow string, class ratelimit.Class) (*ratelimit.Reservation, error) {
	return c.reserve(func(l *ratelimit.Limiter) (*ratelimit.Reservation, error) { return l.Reserve(flow, class) })
}

// ReservePoll grants a reservation for a poll of a job, as Reserve does. It refuses within 5 s of the job's start and of the last
// poll. After that, tokens that no other call needs go to the jobs that are likely done. Call it again as soon as a poll has
// shown that the job still runs: the refusal keeps the flow's place.
func (c *Client) ReservePoll(flow string, job ratelimit.RunningJob) (*ratelimit.Reservation, error) {
	return c.reserve(func(l *ratelimit.Limiter) (*ratelimit.Reservation, error) { return l.ReservePoll(flow, job) })
}

// Wait is Reserve for callers that may block. It returns with a reservation, or when the context ends.
func (c *Client) Wait(ctx context.Context, flow string, class ratelimit.Class) (*ratelimit.Reservation, error) {
	r, err := c.Limiter().Wait(ctx, flow, class)
	return r, limitError(err)
}

func (c *Client) reserve(from func(*ratelimit.Limiter) (*ratelimit.Reservation, error)) (*ratelimit.Reservation, error) {
	if err := c.session.blocked(time.Now()); err != nil {
		return nil, err
	}
	return c.account.reserve(from)
}

// Close drops idle connections. The client stays usable.
func (c *Client) Close() { c.close() }

// send runs one call through the chain and turns everything but a success into an *Error.
func (c *Client) send(ctx context.Context, request *call) (*answer, error) {
	request.hidden = append(request.hidden, c.hidden()...)
	a, err := c.chain.do(ctx, request)
	if err != nil {
		return nil, err
	}
	if !a.ok() {
		return nil, refused(request, a)
	}
	return a, nil
}

// ask makes a call and sends it. See newCall for segment and parameters.
func (c *Client) ask(ctx context.Context, r route, segment string, parameters any) (*call, *answer, error) {
	request, err := newCall(r, segment, parameters)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.send(ctx, request)
	return request, a, err
}

// String returns the portal's address and the user, and nothing else.
func (c *Client) String() string { return c.name }

// Format implements fmt.Formatter for every verb and flag.
func (c *Client) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(c.name)) }

// MarshalJSON implements json.Marshaler, for log encoders.
func (c *Client) MarshalJSON() ([]byte, error) { return json.Marshal(c.name) }
