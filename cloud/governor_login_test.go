// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoginTakesItsTicketsTogether checks that a login with a second factor gets through on an account whose every token is wanted:
// two hundred flows of another user wait, and one caller comes every few seconds, or when it is told. Taken one by one, the tickets of
// the three requests never come together: the code is made, the last request has to wait, and then the code's time is over.
func TestLoginTakesItsTicketsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		config := testConfig(portal)
		config.TOTPSeed, config.Governor = testSeed, NewGovernor(GovernorOptions{Limit: standardLimit})
		c := newClient(t, config)
		var group sync.WaitGroup
		var others atomic.Int64
		end := time.Now().Add(10 * time.Minute)
		for i := range 200 {
			group.Go(func() {
				for time.Now().Before(end) {
					if config.Governor.tryCall(strconv.Itoa(i), Poll) {
						others.Add(1)
					}
				}
			})
		}
		time.Sleep(time.Minute)
		for time.Now().Before(end) {
			at, _ := RetryAt(look(t, c))
			time.Sleep(max(time.Until(at), 5*time.Second))
		}
		group.Wait()
		if sent, verified := portal.count("/mfa/send-otp"), portal.count("/mfa/verify-otp"); sent != 1 || verified != 1 {
			t.Errorf("%d codes were asked for, and %d sent", sent, verified)
		}
		if n := portal.count("/kubernetes-versions"); n < 30 || others.Load() < 2500 {
			t.Errorf("%d requests with the token, and %d of others", n, others.Load())
		}
	})
}

// TestClaimLogin checks when the tickets of a login are granted: all at once, before whatever else waits, and each client in its
// own place.
func TestClaimLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := spentOf(t, 5)
		refusedUntil(t, g, "read", Read)
		tickets, at := g.claimLogin("a", 3)
		if told := time.Until(at).Round(time.Millisecond); tickets != nil || told < 2900*time.Millisecond || told > 3*time.Second {
			t.Fatalf("%d tickets, to come back in %v", len(tickets), told)
		}
		if _, at = g.claimLogin("b", 1); time.Until(at) < 1900*time.Millisecond { // they take turns
			t.Errorf("another login is told %v", time.Until(at))
		}
		time.Sleep(3500 * time.Millisecond)
		refusedUntil(t, g, "read", Read)
		if tickets, _ = g.claimLogin("a", 3); tickets != nil {
			t.Error("a login got the tokens of another one")
		}
		time.Sleep(time.Second)
		if other, _ := g.claimLogin("b", 1); len(other) != 1 {
			t.Errorf("%d tickets for a login of one request", len(other))
		}
		tickets, _ = g.claimLogin("a", 3)
		if len(tickets) != 3 {
			t.Fatalf("%d tickets for a login of three requests", len(tickets))
		}
		if n := g.Stats().Waiting[login]; n != 0 {
			t.Errorf("%d places are left", n)
		}
		tokens := loginTickets{&tickets}
		for range 2 {
			if ok, err := g.spend(ticketOf(tokens.next(t.Context()))); !ok {
				t.Error(err)
			}
		}
		tokens.release()
		if n := len(g.tickets); n != 1 { // the other login's
			t.Errorf("%d tickets are left", n)
		}
		if tokens.next(t.Context()); len(tickets) != 0 || ticketOf(tokens.next(t.Context())) != nil {
			t.Error("there are more tickets than requests")
		}
	})
}

// TestPlacesOfALoginAreKept checks that the places stay until some time after the caller was told to come back, as any.
func TestPlacesOfALoginAreKept(t *testing.T) {
	for late, kept := range map[time.Duration]bool{placeGrace - 2*time.Second: true, placeGrace + 2*time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			g := spentOf(t, 5)
			_, at := g.claimLogin("a", 3)
			time.Sleep(time.Until(at) + late)
			g.Stats()
			if n := len(g.queue.places); (n == 3) != kept {
				t.Errorf("%d places are left %v after the time", n, late)
			}
		})
	}
}

// TestClosedGateHoldsALogin checks that a login waits like all others after a 429, with its tokens set aside.
func TestClosedGateHoldsALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		send(t, g, granted(t, g, "first", Read), 429, "Retry-After", "30")
		tickets, at := g.claimLogin("a", 1)
		if opens := g.Stats().ClosedTo; tickets != nil || at.Before(opens) {
			t.Errorf("%d tickets, to come back at %v, and the gate opens at %v", len(tickets), at, opens)
		}
		time.Sleep(time.Until(at))
		if tickets, _ = g.claimLogin("a", 1); len(tickets) != 1 {
			t.Error("no ticket when the gate is open")
		}
	})
}

// TestLoginOnATinyAccount checks that a login gets through where the account never has the tokens for all of it.
func TestLoginOnATinyAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []bool{false, true} {
			portal := newGuarded(t)
			config := testConfig(portal)
			config.TOTPSeed, config.Wait, config.Governor = testSeed, wait, NewGovernor(GovernorOptions{Limit: 60, Burst: 1})
			c := newClient(t, config)
			if wait {
				if err := look(t, c); err != nil {
					t.Error(err)
				}
				continue
			}
			for range 20 {
				_ = look(t, c)
				time.Sleep(time.Second)
			}
			if portal.count("/login") == 0 {
				t.Error("no login was tried")
			}
		}
	})
}

// TestLoginWaits checks that a client which may wait gets the tickets, and says what it waited for if its context ends.
func TestLoginWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := spentOf(t, 5)
		start := time.Now()
		tickets, err := g.reserveLogin(t.Context(), g, 3, true)
		if waited := time.Since(start); err != nil || len(*tickets.left) != 3 || waited < 2900*time.Millisecond || waited > 4*time.Second {
			t.Errorf("%v after %v", err, waited)
		}
		if _, err := g.reserveLogin(canceled(t), g, 3, true); !IsUnavailable(err) {
			t.Error(err)
		}
		if _, err := g.reserveLogin(t.Context(), g, 3, false); !IsRateLimited(err) {
			t.Error(err)
		}
	})
}

// TestUnusedTicketsAreReturned checks that a login which ends early gives back the tickets of its other requests.
func TestUnusedTicketsAreReturned(t *testing.T) {
	for _, status := range []int{200, 401, 503} {
		config := testConfig(answersWith(status, ""))
		config.Governor, config.TOTPSeed = NewGovernor(GovernorOptions{}), testSeed
		if status != 200 {
			config.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return respond(status, ""), nil })
		}
		_ = look(t, newClient(t, config))
		if n := len(config.Governor.tickets); n != 0 {
			t.Errorf("login answered %d: %d tickets are left", status, n)
		}
	}
}

// spentOf makes a governor of one request per second, with a bucket of that size, whose tokens are used up.
func spentOf(t *testing.T, burst int) *Governor {
	g := NewGovernor(GovernorOptions{Limit: 60, Burst: burst})
	for range burst {
		if ok, err := g.spend(granted(t, g, "first", Read).t); !ok {
			t.Fatal(err)
		}
	}
	return g
}
