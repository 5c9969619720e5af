// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"
	"time"
)

// Bounds of a Pool.
const (
	poolIdle = time.Hour // after which an unused client is dropped; longer than any remembered refusal
	poolSize = 1000      // clients; the longest unused go first
)

// Pool keeps one Client per identity and one Governor per account, so that tokens, refusals and the rate limit
// outlive the moment they were needed in. An identity is base URL, e-mail, password, CA bundle and TOTP seed: a
// changed password is a new Client, which asks the portal anew, under the same Governor. The zero Pool is ready to use.
type Pool struct {
	// Options of the governors that the pool makes. Set before the first use.
	Options GovernorOptions

	mu        sync.Mutex
	clients   map[identity]*pooledClient
	governors map[account]*pooledGovernor
}

type (
	identity [sha256.Size]byte
	account  struct{ baseURL, name string }
)

type pooledClient struct {
	client *Client
	used   time.Time
}

type pooledGovernor struct {
	governor *Governor
	used     time.Time
}

// Client gives the identity's client, making it if there is none. Transport, Observe, Wait, OTP and UserAgent are no
// part of the identity: those of the first call count. A Governor in the Config is used instead of the pool's.
func (p *Pool) Client(config Config) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.evict(now)
	key := identify(config)
	if known := p.clients[key]; known != nil {
		known.used = now
		p.touch(accountOf(config), now)
		return known.client, nil
	}
	if config.Governor == nil {
		config.Governor = p.governor(accountOf(config), now)
	}
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
	p.clients[key] = &pooledClient{client: client, used: now}
	return client, nil
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
	g := NewGovernor(p.Options)
	p.governors[a] = &pooledGovernor{governor: g, used: now}
	return g
}

func (p *Pool) touch(a account, now time.Time) {
	if known := p.governors[a]; known != nil {
		known.used = now
	}
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
	for _, part := range []string{c.BaseURL, c.Email, c.Password, string(c.CABundle), c.TOTPSeed, c.Account} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		_, _ = hash.Write(length[:])
		_, _ = hash.Write([]byte(part))
	}
	return identity(hash.Sum(nil))
}

// accountOf names what shares a rate limit. The limit is per account across all users (specification, "Limits"), and
// without a name we only know that one e-mail is one user of one account.
func accountOf(c Config) account {
	name := c.Account
	if name == "" {
		name = "e-mail " + strings.ToLower(strings.TrimSpace(c.Email))
	}
	return account{baseURL: strings.TrimRight(strings.TrimSpace(c.BaseURL), "/"), name: name}
}
