// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"sync"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// The budget of a client whose login has not worked yet. It is enough for the two logins a minute that a session makes at
// most, second factor included.
const (
	unprovedLimit = 30 // requests per minute
	unprovedBurst = 10
	// unprovedRetry is when a flow comes back that finds the rest of the budget reserved for the login. The login is seconds away,
	// and after it another limiter decides. All flows come back in the same instant, without jitter: a refusal takes a microsecond.
	// If the login has failed by then, its error says how long to stay away (session.blocked).
	unprovedRetry = 2 * time.Second
)

// clientAccount holds the limiter of the account that a client's requests count against. Credentials that the portal has not accepted
// prove nothing, so a client starts with a limiter of its own: a wrong password for another user's e-mail address does not slow that
// user down. Each login that works proves which account it is, and the pool returns its limiter.
type clientAccount struct {
	ask func(Login) *ratelimit.Limiter // nil: the limiter stays the same

	mu      sync.Mutex
	limiter *ratelimit.Limiter
	proved  bool
}

func newClientAccount(config Config) *clientAccount {
	switch {
	case config.Limiter != nil:
		return &clientAccount{limiter: config.Limiter, proved: true}
	case config.prove == nil:
		return &clientAccount{limiter: ratelimit.NewLimiter(ratelimit.Options{}), proved: true}
	}
	own := ratelimit.NewLimiter(ratelimit.Options{Limit: unprovedLimit, Burst: unprovedBurst})
	return &clientAccount{limiter: own, ask: config.prove}
}

// current returns the present limiter.
func (m *clientAccount) current() *ratelimit.Limiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limiter
}

// prove takes over the limiter of the account that a login has proved. The portal has counted the login's requests against that account,
// and its answer tells about that account.
func (m *clientAccount) prove(login Login, requests int, answered *ratelimit.Response) {
	if m.ask == nil {
		return
	}
	proved := m.ask(login)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limiter != proved {
		proved.Charge(requests, answered)
	}
	m.limiter, m.proved = proved, true
}

// evidence returns the part of a response that the limiter learns from. Before the first login has worked, it is refusals only: the
// limiter is not yet the account's, and must keep the tokens that the login needs, even if the account has fewer.
func (m *clientAccount) evidence(response *ratelimit.Response) *ratelimit.Response {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proved || response == nil || response.Limited {
		return response
	}
	return nil
}

// reserve reserves from the limiter. Before the first login has worked, flows leave enough of the budget for the login. They do not
// queue, because the login changes the queue.
func (m *clientAccount) reserve(from func(*ratelimit.Limiter) (*ratelimit.Reservation, error)) (*ratelimit.Reservation, error) {
	m.mu.Lock()
	limiter, proved := m.limiter, m.proved
	m.mu.Unlock()
	if !proved && limiter.Tokens() < factorLogin+1 {
		return nil, waitError(time.Now().Add(unprovedRetry))
	}
	r, err := from(limiter)
	return r, limitError(err)
}
