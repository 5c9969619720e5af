// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"sync"
	"time"
)

// The budget of a client whose login has not worked yet. It is enough for the two logins a minute that a session makes at
// most, second factor included.
const (
	unprovedLimit = 30 // requests per minute
	unprovedBurst = 10
	// unprovedRetry is when a flow comes back that finds the rest of the budget reserved for the login. The login is seconds away,
	// and after it another governor decides. All flows come back in the same instant, without jitter: a refusal takes a microsecond, and
	// when the login has failed the next one says until when they stay away (session.barred).
	unprovedRetry = 2 * time.Second
)

// standing says which governor a client's requests go by. Credentials that have not been accepted prove nothing, so they have a
// governor of their own: whoever writes somebody else's e-mail address slows nobody down. With each login that works, the pool
// says which governor the account has.
type standing struct {
	ask func(Login) *Governor // nil: the governor stays the same

	mu       sync.Mutex
	governor *Governor
	proved   bool
}

func newStanding(config Config) *standing {
	switch {
	case config.Governor != nil:
		return &standing{governor: config.Governor, proved: true}
	case config.prove == nil:
		return &standing{governor: NewGovernor(GovernorOptions{}), proved: true}
	}
	return &standing{governor: NewGovernor(GovernorOptions{Limit: unprovedLimit, Burst: unprovedBurst}), ask: config.prove}
}

func (s *standing) now() *Governor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.governor
}

// prove takes over the governor of the account that a login of so many requests has proved. The portal has counted those
// requests against the account.
func (s *standing) prove(login Login, requests int) {
	if s.ask == nil {
		return
	}
	governor := s.ask(login)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.governor != governor {
		governor.charge(requests)
	}
	s.governor, s.proved = governor, true
}

// reserve reserves from the governor. Before the first login has worked, flows leave enough of the budget for it, and do not queue: their
// places would be in the wrong queue a moment later.
func (s *standing) reserve(from func(*Governor) (Ticket, error)) (Ticket, error) {
	s.mu.Lock()
	governor, proved := s.governor, s.proved
	s.mu.Unlock()
	if !proved && !governor.spares(factorLogin) {
		return Ticket{}, waitError(time.Now().Add(unprovedRetry))
	}
	return from(governor)
}

// spares reports whether so many tokens are left after the next one.
func (g *Governor) spares(tokens int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(time.Now())
	return g.free() >= float64(tokens+1)
}
