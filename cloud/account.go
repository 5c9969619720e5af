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

// account is what the clients of one portal account share: its rate limit, and how long its jobs take.
type account struct {
	limiter *ratelimit.Limiter
	jobs    *jobTracker
}

func newAccount(limiter *ratelimit.Limiter) *account {
	return &account{limiter: limiter, jobs: newJobTracker()}
}

func (a *account) reservePoll(flow string, running RunningJob) (*ratelimit.Reservation, error) {
	return a.limiter.ReservePoll(flow, a.jobs.follow(running, time.Now()))
}

// clientAccount holds the account that a client's requests count against. Credentials that the portal has not accepted prove
// nothing, so a client starts with an account of its own: a wrong password for another user's e-mail address does not slow that
// user down. Each login that works proves which account it is, and the pool returns it.
type clientAccount struct {
	ask func(Login) *account // nil: the account stays the same

	mu      sync.Mutex
	account *account
	proved  bool
}

func newClientAccount(config Config) *clientAccount {
	switch {
	case config.Limiter != nil:
		return &clientAccount{account: newAccount(config.Limiter), proved: true}
	case config.prove == nil:
		return &clientAccount{account: newAccount(ratelimit.NewLimiter(ratelimit.Options{})), proved: true}
	}
	own := ratelimit.NewLimiter(ratelimit.Options{Limit: unprovedLimit, Burst: unprovedBurst})
	return &clientAccount{account: newAccount(own), ask: config.prove}
}

// current returns the present account.
func (m *clientAccount) current() *account {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.account
}

// prove takes over the account that a login has proved. The portal has counted the login's requests against that account.
func (m *clientAccount) prove(login Login, requests int) {
	if m.ask == nil {
		return
	}
	proved := m.ask(login)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.account != proved {
		proved.limiter.Charge(requests)
	}
	m.account, m.proved = proved, true
}

// reserve reserves from the account. Before the first login has worked, flows leave enough of the budget for the login. They do not
// queue, because the login changes the queue.
func (m *clientAccount) reserve(from func(*account) (*ratelimit.Reservation, error)) (*ratelimit.Reservation, error) {
	m.mu.Lock()
	account, proved := m.account, m.proved
	m.mu.Unlock()
	if !proved && account.limiter.Tokens() < factorLogin+1 {
		return nil, waitError(time.Now().Add(unprovedRetry))
	}
	r, err := from(account)
	return r, limitError(err)
}
