// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// Bounds of a Pool.
const (
	poolIdle  = time.Hour // after which an unused client is dropped. Longer than any remembered refusal
	poolSize  = 1000      // clients, and accounts. The longest unused go first
	ownerSize = 200       // clients that one owner holds, which leaves room for others. A team may have an account for each customer
)

// Pool keeps one Client per identity and one rate limiter per account, so that tokens, refusals and the rate limit outlive the
// reconcile that needed them. An identity is base URL, e-mail, password, CA bundle, TOTP seed, and what it says about its account.
// A changed password is a new Client, which logs in again. It gets the same limiter when the login has worked. The zero Pool is
// ready to use.
type Pool struct {
	// Options of the limiters that the pool makes. Set them before the first use.
	Options ratelimit.Options

	mu       sync.Mutex
	clients  map[identity]*pooledClient
	limiters map[accountKey]*pooledLimiter
}

type identity [sha256.Size]byte

// accountKey identifies an account, which shares a rate limit.
type accountKey struct {
	portal string // its Address
	name   string
	limit  int // that its identities name: two that disagree do not share, so that none of them sets the other's limit
}

type pooledClient struct {
	*Client
	used   time.Time
	owners map[string]time.Time // when each of them last used it
}

type pooledLimiter struct {
	*ratelimit.Limiter
	used time.Time
}

// Client returns the identity's client, and makes it if there is none. Transport, Observe, Wait, OTP, Hosts and UserAgent are no
// part of the identity: those of the first call count. A Limiter in the Config is used instead of the pool's.
func (p *Pool) Client(config Config) (*Client, error) {
	config = config.trimmed()
	if _, err := config.endpoint(); err != nil {
		return nil, err // Hosts is no part of the identity
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.evict(now)
	key := identify(config)
	known := p.clients[key]
	if known == nil {
		config.prove = func(login Login) *ratelimit.Limiter { return p.proved(config, login) }
		client, err := New(config)
		if err != nil {
			return nil, err
		}
		for len(p.clients) >= poolSize {
			p.drop(longestUnused(p.clients, func(c *pooledClient) time.Time { return c.used }))
		}
		known = &pooledClient{Client: client, owners: map[string]time.Time{}}
		p.clients[key] = known
	}
	known.used = now
	limiter := known.Limiter()
	for _, l := range p.limiters { // each use of a client is a use of its account
		if l.Limiter == limiter {
			l.used = now
		}
	}
	p.hold(known, config.Owner, now)
	return known.Client, nil
}

// hold notes that the owner uses the client. An owner that holds too many gives up the one that it has not used for longest, and
// a client without an owner is dropped.
func (p *Pool) hold(client *pooledClient, owner string, now time.Time) {
	if owner == "" {
		return
	}
	client.owners[owner] = now
	held := 0
	for _, c := range p.clients {
		if _, holds := c.owners[owner]; holds {
			held++
		}
	}
	if held <= ownerSize {
		return
	}
	oldest := longestUnused(p.clients, func(c *pooledClient) time.Time { return c.owners[owner] })
	delete(p.clients[oldest].owners, owner)
	if len(p.clients[oldest].owners) == 0 {
		p.drop(oldest)
	}
}

// proved returns the limiter of the account that a login has proved: that of the portal user, or the one that the identity names.
func (p *Pool) proved(config Config, login Login) *ratelimit.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := accountOf(config, login)
	known := p.limiters[key]
	if known == nil {
		for len(p.limiters) >= poolSize { // clients that use the limiter keep it
			delete(p.limiters, longestUnused(p.limiters, func(l *pooledLimiter) time.Time { return l.used }))
		}
		options := p.Options
		if key.limit > 0 {
			options.Limit = key.limit
		}
		known = &pooledLimiter{Limiter: ratelimit.NewLimiter(options)}
		p.limiters[key] = known
	}
	known.used = time.Now()
	return known.Limiter
}

// evict drops clients and limiters that have not been used for long. A limiter goes after the clients that share it.
func (p *Pool) evict(now time.Time) {
	if p.clients == nil {
		p.clients, p.limiters = map[identity]*pooledClient{}, map[accountKey]*pooledLimiter{}
	}
	for key, c := range p.clients {
		if now.Sub(c.used) > poolIdle {
			p.drop(key)
		}
	}
	maps.DeleteFunc(p.limiters, func(_ accountKey, l *pooledLimiter) bool { return now.Sub(l.used) > 2*poolIdle })
}

func (p *Pool) drop(key identity) {
	p.clients[key].Close()
	delete(p.clients, key)
}

// longestUnused returns the key of the value that was used longest ago. Values with the zero time do not count.
func longestUnused[K comparable, V any](all map[K]V, used func(V) time.Time) (key K) {
	var oldest time.Time
	for k, v := range all {
		if at := used(v); !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			key, oldest = k, at
		}
	}
	return key
}

// identify hashes what makes an identity, each part with its length so that no two identities read alike.
func identify(c Config) identity {
	hash := sha256.New()
	limit := strconv.Itoa(c.RequestsPerMinute)
	for _, part := range []string{c.BaseURL, c.Email, c.Password, string(c.CABundle), c.TOTPSeed, c.Account, limit} {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return identity(hash.Sum(nil))
}

// accountOf returns the key of a login's account. The rate limit is per account across all users (specification, "Limits"). The login names
// the user only, so several users of one account share an account here only if their identities name the account. A login without a
// user's id proves no more than itself.
func accountOf(c Config, login Login) accountKey {
	name := "user " + login.UserID
	switch {
	case c.Account != "":
		name = "account " + c.Account
	case login.UserID == "":
		key := identify(c)
		name = "identity " + string(key[:])
	}
	return accountKey{portal: Address(c.BaseURL), name: name, limit: c.RequestsPerMinute}
}
