// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

func pooled(t *testing.T, p *Pool, config Config) *Client {
	t.Helper()
	c, err := p.Client(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// anyPassword returns a portal that accepts every password.
func anyPassword() *doorman {
	d := newDoorman()
	d.password = ""
	return d
}

// proved returns the identity's client after a login.
func proved(t *testing.T, p *Pool, config Config) *Client {
	t.Helper()
	c := pooled(t, p, config)
	if err := look(t, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPoolKeepsOneClientPerIdentity checks that a pool has one client for each identity, and one limiter for each account.
func TestPoolKeepsOneClientPerIdentity(t *testing.T) {
	var pool Pool
	base := testConfig(anyPassword())
	first := proved(t, &pool, base)
	if pooled(t, &pool, base) != first {
		t.Error("the same identity got another client")
	}
	piped := base
	piped.BaseURL, piped.Email, piped.Account = base.BaseURL+"\n", "\t"+base.Email+"\r\n", "\n"
	if pooled(t, &pool, piped) != first {
		t.Error("the same identity with line breaks got another client")
	}
	for name, change := range map[string]func(*Config){
		"password": func(c *Config) { c.Password = "new" },
		"seed":     func(c *Config) { c.TOTPSeed = testSeed },
		"CA":       func(c *Config) { c.CABundle = newTLSPortal(t, nil).ca() },
		"spelling": func(c *Config) { c.Email, c.BaseURL = "ROBOT@example.test", c.BaseURL+"/" },
		"port":     func(c *Config) { c.BaseURL += ":443" },
		"case":     func(c *Config) { c.BaseURL = "https://Portal.Test" },
	} {
		changed := base
		change(&changed)
		c := proved(t, &pool, changed)
		if c == first {
			t.Errorf("another %s got the same client", name)
		}
		if c.Limiter() != first.Limiter() {
			t.Errorf("another %s got another limiter, although the account is the same", name)
		}
	}
	a, b := base, base
	a.Email, a.Password = "robot@example.test", "xpw"
	b.Email, b.Password = "robot@example.testx", "pw"
	if pooled(t, &pool, a) == pooled(t, &pool, b) {
		t.Error("two users share a client")
	}
}

// TestPoolForgetsInTime checks that a client goes after an hour without use, with what it knows, and the limiter an hour later.
func TestPoolForgetsInTime(t *testing.T) {
	for unused, want := range map[time.Duration]struct{ client, limiter bool }{
		poolIdle:                 {true, true},
		poolIdle + time.Second:   {false, true},
		2 * poolIdle:             {false, true},
		2*poolIdle + time.Second: {false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var pool Pool
			first := proved(t, &pool, testConfig(anyPassword()))
			time.Sleep(unused)
			again := proved(t, &pool, testConfig(anyPassword()))
			if (again == first) != want.client || (again.Limiter() == first.Limiter()) != want.limiter {
				t.Errorf("after %v the client is kept: %t, its limiter: %t", unused, again == first, again.Limiter() == first.Limiter())
			}
		})
	}
}

// as returns the client of an owner's identity, a moment after the last one.
func (p *Pool) as(t *testing.T, owner, password string) *Client {
	t.Helper()
	config := testConfig(noTransport{t})
	config.Owner, config.Password = owner, password
	time.Sleep(time.Millisecond)
	return pooled(t, p, config)
}

// TestPoolDropsTheLongestUnused checks which client the pool drops when it has too many.
func TestPoolDropsTheLongestUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		first, second := pool.as(t, "", "first"), pool.as(t, "", "second")
		for i := range poolSize - 2 {
			pool.as(t, "", fmt.Sprint(i))
		}
		pool.as(t, "", "first")
		pool.as(t, "", "one too many")
		if n := len(pool.clients); n != poolSize || pool.as(t, "", "first") != first || pool.as(t, "", "second") == second {
			t.Errorf("of %d clients, the one that was unused longest was not dropped", n)
		}
	})
}

// TestOwnersDoNotEvictEachOther checks that one owner's new identities evict only its own clients, unless another owner uses them.
func TestOwnersDoNotEvictEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		as := func(owner, password string) *Client { return pool.as(t, owner, password) }
		theirs, shared := as("b", "b"), as("b", "shared")
		if as("a", "shared") != shared {
			t.Error("two owners of the same identity have two clients")
		}
		first, second := as("a", "first"), as("a", "second")
		for i := range ownerSize - 3 {
			as("a", fmt.Sprint(i))
		}
		as("a", "first")
		if n := len(pool.clients); n != ownerSize+1 {
			t.Errorf("%d clients, want one more than an owner may hold", n)
		}
		as("a", "one more") // evicts the shared client, which the other owner keeps
		as("a", "and another")
		if as("b", "shared") != shared || as("a", "first") != first || as("a", "second") == second {
			t.Error("the pool did not drop the client that its owner has not used for longest")
		}
		for i := range 2 * poolSize {
			as("a", fmt.Sprint("new ", i))
		}
		if n := len(pool.clients); as("b", "b") != theirs || n != ownerSize+2 {
			t.Errorf("%d clients, want %d of one owner and 2 of the other", n, ownerSize)
		}
	})
}

// TestManyIdentitiesOfAnOwner gives one namespace an account for each of 200 customers. Each of them logs in once, and a wrong password
// is tried once, however often their clusters are reconciled. No identity beyond the bound costs another owner its client.
func TestManyIdentitiesOfAnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		d := newDoorman()
		other := testConfig(d)
		other.Owner = "other"
		theirs := proved(t, &pool, other)
		config := testConfig(d)
		config.Owner = "fleet"
		use := func(customers int) int {
			before := len(d.logins)
			for range 5 {
				for i := range customers {
					config.BaseURL, config.Password = fmt.Sprintf("https://portal-%d.test", i), "pw"
					if i%10 == 0 {
						config.Password = "wrong"
					}
					if err := look(t, pooled(t, &pool, config)); IsUnauthorized(err) != (i%10 == 0) {
						t.Fatal(err)
					}
				}
			}
			return len(d.logins) - before
		}
		if logins := use(200); logins != 200 {
			t.Errorf("%d logins of 200 identities", logins)
		}
		use(300)
		if n := len(pool.clients); n != ownerSize+1 || pooled(t, &pool, other) != theirs {
			t.Errorf("%d clients, want %d of one owner and 1 of the other", n, ownerSize)
		}
	})
}

// TestAccountsAreBounded checks that identities that come and go leave no more limiters than clients, and that those in use stay.
func TestAccountsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		config := testConfig(anyPassword())
		kept := proved(t, &pool, config).Limiter()
		var second *ratelimit.Limiter
		for i := range poolSize + 50 {
			other := config
			other.Owner, other.Email = "a", fmt.Sprint(i)
			g := proved(t, &pool, other).Limiter()
			if i == 0 {
				second = g
			}
			time.Sleep(time.Millisecond)
			pooled(t, &pool, config)
		}
		if n := len(pool.limiters); n != poolSize {
			t.Errorf("%d limiters", n)
		}
		again := config
		again.Password = "rotated"
		if proved(t, &pool, again).Limiter() != kept {
			t.Error("the limiter of a client in use was dropped")
		}
		again.Owner, again.Email = "a", "0"
		if proved(t, &pool, again).Limiter() == second {
			t.Error("the limiter that was unused longest was kept")
		}
	})
}
