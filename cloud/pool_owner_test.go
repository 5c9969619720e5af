// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestOwnersDoNotEvictEachOther checks that one owner's new identities push out only its own clients, the longest unused first, and
// that a client which two owners use stays while one of them does.
func TestOwnersDoNotEvictEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		as := func(owner, password string) *Client {
			config := testConfig(noTransport{t})
			config.Owner, config.Password = owner, password
			time.Sleep(time.Millisecond)
			return pooled(t, &pool, config)
		}
		theirs, shared := as("b", "b"), as("b", "shared")
		if as("a", "shared") != shared {
			t.Error("two owners of the same identity have two clients")
		}
		var own []*Client
		for i := range ownerSize - 1 {
			own = append(own, as("a", fmt.Sprint(i)))
		}
		if n := len(pool.clients); n != ownerSize+1 {
			t.Fatalf("%d clients, want as many as one owner may hold, and one", n)
		}
		as("a", "0")
		as("a", "one more") // pushes out the shared one, which the other owner keeps
		as("a", "and another")
		if as("b", "shared") != shared {
			t.Error("a client was dropped that another owner holds")
		}
		for i, want := range []bool{true, false, true} {
			if kept := as("a", fmt.Sprint(i)) == own[i]; kept != want && i != 2 {
				t.Errorf("client %d is kept: %t", i, kept)
			}
		}
		for i := range 2 * poolSize {
			as("a", fmt.Sprint("new ", i))
		}
		if as("b", "b") != theirs {
			t.Error("one owner's identities pushed out another's client")
		}
		if n := len(pool.clients); n != ownerSize+2 {
			t.Errorf("%d clients, want %d of one owner and 2 of the other", n, ownerSize)
		}
	})
}

// TestGovernorsAreBounded checks that identities which come and go leave no more limiters behind than there may be clients, and
// that the ones in use stay.
func TestGovernorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		config := testConfig(users())
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
		if n := len(pool.accounts); n != poolSize {
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
