// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of a Pool.
const (
	poolIdle  = time.Hour // after which an unused client is dropped; longer than any remembered refusal
	poolSize  = 1000      // clients, and governors; the longest unused go first
	ownerSize = 20        // clients that one owner holds. A team has a few portal users, and new ones must not push out those of others
)

// Pool keeps one Client per identity and one Governor per account, so that tokens, refusals and the rate limit
// outlive the moment they were needed in. An identity is base URL, e-mail, password, CA bundle, TOTP seed, and what it says
// about its account: a changed password is a new Client, which asks the portal anew, and has the same Governor once the portal
// has let it in. The zero Pool is ready to use.
type Pool struct {
	// Options of the governors that the pool makes. Set before the first use.
	Options GovernorOptions

	mu        sync.Mutex
	clients   map[identity]*pooledClient
	governors map[account]*pooledGovernor
}

type identity [sha256.Size]byte

// account is what shares a rate limit.
type account struct {
	baseURL string
	name    string
	limit   int // that its identities name: two that disagree do not share, so that none of them sets the other's limit
}

type pooledClient struct {
	client *Client
	used   time.Time
	owners map[string]time.Time // when each of them last used it
}

type pooledGovernor struct {
	governor *Governor
	used     time.Time
}

// Client gives the identity's client, making it if there is none. Transport, Observe, Wait, OTP, Hosts and UserAgent are no
// part of the identity: those of the first call count. A Governor in the Config is used instead of the pool's.
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
		config.prove = func(login Login) *Governor { return p.proved(config, login) }
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
	p.touch(known.client.Governor(), now)
	p.hold(known, config.Owner, now)
	return known.client, nil
}

// hold notes that the owner uses the client. An owner that holds too many gives up the one that it has not used for longest, and
// a client that nobody holds is dropped.
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

// proved returns the governor of the account that a login has proved: that of the portal user, or that of the account which the
// identity names.
func (p *Pool) proved(config Config, login Login) *Governor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.governor(accountOf(config, login), time.Now())
}

// Governors lists the accounts' governors, for metrics.
func (p *Pool) Governors() []*Governor {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*Governor, 0, len(p.governors))
	for _, g := range p.governors {
		list = append(list, g.governor)
	}
	return list
}

func (p *Pool) governor(a account, now time.Time) *Governor {
	if known := p.governors[a]; known != nil {
		known.used = now
		return known.governor
	}
	if p.governors == nil {
		p.governors = map[account]*pooledGovernor{}
	}
	for len(p.governors) >= poolSize {
		p.forgetLongestUnused()
	}
	options := p.Options
	if a.limit > 0 {
		options.Limit = a.limit
	}
	g := NewGovernor(options)
	p.governors[a] = &pooledGovernor{governor: g, used: now}
	return g
}

func (p *Pool) touch(governor *Governor, now time.Time) {
	for _, known := range p.governors {
		if known.governor == governor {
			known.used = now
			return
		}
	}
}

// forgetLongestUnused drops a governor. Clients that go by it keep it.
func (p *Pool) forgetLongestUnused() {
	var found account
	var oldest time.Time
	for key, g := range p.governors {
		if oldest.IsZero() || g.used.Before(oldest) {
			found, oldest = key, g.used
		}
	}
	delete(p.governors, found)
}

// evict drops what has not been used for long. A governor goes only after the clients that share it: they are used
// no later than it is.
func (p *Pool) evict(now time.Time) {
	for key, c := range p.clients {
		if now.Sub(c.used) > poolIdle {
			p.drop(key)
		}
	}
	for key, g := range p.governors {
		if now.Sub(g.used) > 2*poolIdle {
			delete(p.governors, key)
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

// accountOf names what shares a rate limit. The limit is per account across all users (specification, "Limits"). The login names
// the user only, so several users of one account share a governor only if their identities name the account. A login without a
// user's id proves no more than itself.
func accountOf(c Config, login Login) account {
	name := "user " + login.UserID
	switch {
	case c.Account != "":
		name = "account " + c.Account
	case login.UserID == "":
		key := identify(c)
		name = "identity " + string(key[:])
	}
	return account{baseURL: strings.TrimRight(strings.TrimSpace(c.BaseURL), "/"), name: name, limit: c.RequestsPerMinute}
}
