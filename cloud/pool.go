// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
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
	accounts map[accountKey]*pooledAccount
}

type identity [sha256.Size]byte

// accountKey identifies an account, which shares a rate limit.
type accountKey struct {
	baseURL string
	name    string
	limit   int // that its identities name: two that disagree do not share, so that none of them sets the other's limit
}

type pooledClient struct {
	client *Client
	used   time.Time
	owners map[string]time.Time // when each of them last used it
}

type pooledAccount struct {
	*account
	used time.Time
}

// Client returns the identity's client, and makes it if there is none. Transport, Observe, Wait, OTP, Hosts and UserAgent are no
// part of the identity: those of the first call count. A Limiter in the Config is used instead of the pool's.
func (p *Pool) Client(config Config) (*Client, error) {
	if _, err := config.endpoint(); err != nil {
		return nil, err // Hosts is no part of the identity
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.evict(now)
	key := identify(config)
	if p.clients[key] == nil {
		config.prove = func(login Login) *account { return p.proved(config, login) }
		client, err := New(config)
		if err != nil {
			return nil, err
		}
		if p.clients == nil {
			p.clients = map[identity]*pooledClient{}
		}
		for len(p.clients) >= poolSize {
			p.drop(p.longestUnused())
		}
		p.clients[key] = &pooledClient{client: client, owners: map[string]time.Time{}}
	}
	known := p.clients[key]
	known.used = now
	p.touch(known.client.account.current(), now)
	p.hold(known, config.Owner, now)
	return known.client, nil
}

// hold notes that the owner uses the client. An owner that holds too many gives up the one that it has not used for longest, and
// a client without an owner is dropped.
func (p *Pool) hold(client *pooledClient, owner string, now time.Time) {
	if owner == "" {
		return
	}
	client.owners[owner] = now
	held, oldest := 0, identity{}
	for key, c := range p.clients {
		at, holds := c.owners[owner]
		if !holds {
			continue
		}
		if held == 0 || at.Before(p.clients[oldest].owners[owner]) {
			oldest = key
		}
		held++
	}
	if held <= ownerSize {
		return
	}
	delete(p.clients[oldest].owners, owner)
	if len(p.clients[oldest].owners) == 0 {
		p.drop(oldest)
	}
}

// proved returns the account that a login has proved: that of the portal user, or the one that the identity names.
func (p *Pool) proved(config Config, login Login) *account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.account(accountOf(config, login), time.Now())
}

func (p *Pool) account(key accountKey, now time.Time) *account {
	if known := p.accounts[key]; known != nil {
		known.used = now
		return known.account
	}
	if p.accounts == nil {
		p.accounts = map[accountKey]*pooledAccount{}
	}
	for len(p.accounts) >= poolSize {
		p.forgetLongestUnused()
	}
	options := p.Options
	if key.limit > 0 {
		options.Limit = key.limit
	}
	a := newAccount(ratelimit.NewLimiter(options))
	p.accounts[key] = &pooledAccount{account: a, used: now}
	return a
}

// touch notes that an account is used.
func (p *Pool) touch(a *account, now time.Time) {
	for _, known := range p.accounts {
		if known.account == a {
			known.used = now
			return
		}
	}
}

// forgetLongestUnused drops an account. Clients that use it keep it.
func (p *Pool) forgetLongestUnused() {
	var found accountKey
	var oldest time.Time
	for key, a := range p.accounts {
		if oldest.IsZero() || a.used.Before(oldest) {
			found, oldest = key, a.used
		}
	}
	delete(p.accounts, found)
}

// evict drops clients and accounts that have not been used for long. An account goes after the clients that share it, since each
// use of a client is a use of its account.
func (p *Pool) evict(now time.Time) {
	for key, c := range p.clients {
		if now.Sub(c.used) > poolIdle {
			p.drop(key)
		}
	}
	for key, a := range p.accounts {
		if now.Sub(a.used) > 2*poolIdle {
			delete(p.accounts, key)
		}
	}
}

func (p *Pool) drop(key identity) {
	p.clients[key].client.Close()
	delete(p.clients, key)
}

func (p *Pool) longestUnused() identity {
	var found identity
	var oldest time.Time
	for key, c := range p.clients {
		if oldest.IsZero() || c.used.Before(oldest) {
			found, oldest = key, c.used
		}
	}
	return found
}

// identify hashes what makes an identity, each part with its length so that no two identities read alike.
func identify(c Config) identity {
	hash := sha256.New()
	limit := strconv.Itoa(c.RequestsPerMinute)
	for _, part := range []string{c.BaseURL, c.Email, c.Password, string(c.CABundle), c.TOTPSeed, c.Account, limit} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		_, _ = hash.Write(length[:])
		_, _ = hash.Write([]byte(part))
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
	return accountKey{baseURL: strings.TrimRight(strings.TrimSpace(c.BaseURL), "/"), name: name, limit: c.RequestsPerMinute}
}
