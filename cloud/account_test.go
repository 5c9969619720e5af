// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestWrongPasswordSharesNoLimiter checks that a client of another's e-mail address or account with a wrong password does not slow the other one down.
func TestWrongPasswordSharesNoLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		d := newDoorman()
		d.refusal = func() *http.Response {
			a := respond(429, `{"error":{"code":"RATE_LIMITED","message":"m"}}`)
			a.Header.Set("Retry-After", "600")
			a.Header.Set("X-RateLimit-Limit", "1")
			return a
		}
		right := testConfig(d)
		right.Account = "team-a/acme"
		victim := proved(t, &pool, right)
		wrong := right
		wrong.Password = "guess"
		attacker := pooled(t, &pool, wrong)
		for range 100 {
			if err := look(t, attacker); err == nil {
				t.Fatal("the portal accepted a wrong password")
			}
			time.Sleep(time.Second)
		}
		if attacker.Limiter() == victim.Limiter() {
			t.Error("the limiter is shared")
		}
		stats := victim.Limiter().Stats()
		if stats.Limited != 0 || stats.Limit != 300 || stats.ClosedTo.After(time.Now()) {
			t.Errorf("the victim's limiter learned from the attacker: %+v", stats)
		}
		if _, err := victim.Reserve("cluster", ratelimit.Mutation); err != nil {
			t.Errorf("the victim waits: %v", err)
		}
	})
}

// TestUnprovedBudget checks the budget of a client before its first successful login, and when a flow comes back that finds it used up.
func TestUnprovedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		c := pooled(t, &pool, testConfig(newDoorman()))
		if limit := c.Limiter().Stats().Limit; limit != unprovedLimit {
			t.Errorf("%d requests a minute", limit)
		}
		granted := 0
		for i := range 300 {
			if _, err := c.Reserve(strconv.Itoa(i), ratelimit.Poll); err == nil {
				granted++
			} else if at, _ := RetryAt(err); !IsRateLimited(err) || time.Until(at) != unprovedRetry {
				t.Fatalf("flow %d: RetryAt is in %v: %v", i, time.Until(at), err)
			}
		}
		if granted != unprovedBurst-unprovedBurst/10-factorLogin {
			t.Errorf("%d reservations", granted)
		}
		if err := look(t, c); err != nil { // logs in, for which the budget suffices
			t.Fatal(err)
		}
		if _, err := c.Reserve("299", ratelimit.Poll); err != nil || c.Limiter().Stats().Limit != 300 {
			t.Errorf("with %+v after the login: %v", c.Limiter().Stats(), err)
		}
	})
}

// TestReservationOfAnUnprovedClient checks that a reservation from before the login does not pay for the call after it.
func TestReservationOfAnUnprovedClient(t *testing.T) {
	var pool Pool
	c := pooled(t, &pool, testConfig(newDoorman()))
	own := c.Limiter()
	reservation, err := c.Reserve("cluster", ratelimit.Read)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.KubernetesVersions(WithReservation(t.Context(), reservation)); err != nil {
		t.Fatal(err)
	}
	if before, after := own.Stats().Sent, c.Limiter().Stats().Sent; before != 1 || after != 1 {
		t.Errorf("%d requests before and %d after the login was accepted, want 1 each", before, after)
	}
	reservation.Cancel()
	if tokens := c.Limiter().Stats().Tokens; tokens > 43.1 || tokens < 43 {
		t.Errorf("%v tokens are left, want 45 less the login's and the call's", tokens)
	}
}

// TestAccountOfALogin checks which clients share a limiter after the login: those of one user (a claim of an identity does not count), and those
// of users whose identities name the same account. Users of different portals never share one, nor logins that name no user. The limiter
// belongs to the user and not to the e-mail address, which may become another user's.
func TestAccountOfALogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		d := newDoorman()
		client := func(base, email, account string) *Client {
			config := testConfig(d)
			config.BaseURL, config.Email, config.Account = base, email, account
			return proved(t, &pool, config)
		}
		const here, there = "https://portal.test", "https://other.test"
		one := client(here, "a@portal.test", "")
		limiter, acme := one.Limiter(), client(here, "a@portal.test", "team-a/acme").Limiter()
		for name, test := range map[string]struct {
			base, email, account string
			want                 *ratelimit.Limiter // nil: another one
		}{
			"the user spelled otherwise": {here, "A@portal.test", "", limiter},
			"another user":               {here, "b@portal.test", "", nil},
			"another portal":             {there, "a@portal.test", "", nil},
			"the user by its name":       {here, "b@portal.test", "user a@portal.test", nil},
			"another's account":          {here, "b@portal.test", "team-b/acme", nil},
			"account of elsewhere":       {there, "b@portal.test", "team-a/acme", nil},
			"another user of an account": {here, "b@portal.test", "team-a/acme", acme},
		} {
			if got := client(test.base, test.email, test.account).Limiter(); (got == limiter || got == acme || test.want != nil) && got != test.want {
				t.Errorf("%s: shares a limiter: %t", name, test.want == nil)
			}
		}
		d.user = func(string) string { return "" }
		if first := client(here, "c@portal.test", "").Limiter(); client(here, "d@portal.test", "").Limiter() == first || first.Stats().Limit != 300 {
			t.Errorf("two clients without a user id share a limiter, or have a small one: %+v", first.Stats())
		}
		d.user = func(string) string { return "another" }
		time.Sleep(9 * time.Hour)
		if err := look(t, one); err != nil || one.Limiter() == limiter {
			t.Errorf("the new user of the e-mail address has the limiter of the previous one: %v", err)
		}
	})
}

// TestReserveWhileTheLoginFails checks that no reservation is granted for a call that cannot be made, so that its caller records no operation.
func TestReserveWhileTheLoginFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		c := newClient(t, testConfig(d))
		reserve := func(class string, within time.Duration) {
			t.Helper()
			_ = look(t, c)
			job := ratelimit.RunningJob{ID: "job", Started: time.Now().Add(-time.Minute)}
			reservation, err := c.Reserve("cluster", ratelimit.Mutation)
			poll, pollErr := c.ReservePoll("cluster", job)
			if at, _ := RetryAt(err); which(t, err) != class || which(t, pollErr) != class || time.Until(at) > within {
				t.Errorf("%v, to come back in %v; a poll: %v", err, time.Until(at), pollErr)
			}
			reservation.Cancel()
			poll.Cancel()
		}
		d.password = "changed"
		reserve("unauthorized", refusalBackoff)
		d.password, d.down = "pw", true
		time.Sleep(refusalBackoff)
		reserve("unavailable", outageBackoff)
		d.down = false
		time.Sleep(outageBackoff)
		reserve("", 0)
		d.down = true
		time.Sleep(8*time.Hour - time.Second) // the refresh fails, and the token is valid for one more second
		reserve("", 0)
		time.Sleep(time.Second)
		reserve("unavailable", maxOutageBackoff)
	})
}

// TestConfiguredLimit checks the valid limits of an identity. The portal's limit overrides it, and it does not change that of other accounts.
func TestConfiguredLimit(t *testing.T) {
	var pool Pool
	config := testConfig(answersWith(200, `{"versions":[]}`))
	for limit, valid := range map[int]bool{-1: false, 0: true, 1: true, 600: true, ratelimit.MaxLimit: true, ratelimit.MaxLimit + 1: false} {
		config.RequestsPerMinute = limit
		c, err := pool.Client(config)
		if valid != (err == nil) || err != nil && (!IsInvalid(err) || !strings.Contains(err.Error(), "requestsPerMinute")) {
			t.Errorf("%d requests per minute: %v", limit, err)
		}
		if !valid {
			continue
		}
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		stats := c.Limiter().Stats()
		if want := map[bool]int{true: limit, false: 300}[limit > 0]; stats.Limit != want || stats.LimitKnown != (limit > 0) {
			t.Errorf("%d requests per minute: %+v", limit, stats)
		}
	}
	config.RequestsPerMinute = 0
	larger := Pool{Options: ratelimit.Options{Limit: 1200}}
	if limit := proved(t, &larger, config).Limiter().Stats().Limit; limit != 1200 || len(pool.limiters) != 4 {
		t.Errorf("%d requests per minute, want the pool's 1200; %d limiters for 4 limits", limit, len(pool.limiters))
	}
	config.RequestsPerMinute = 900
	config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		a, err := answersWith(200, `{"versions":[]}`)(r)
		a.Header.Set("X-RateLimit-Limit", "300")
		return a, err
	})
	if limit := proved(t, &pool, config).Limiter().Stats().Limit; limit != 300 {
		t.Errorf("%d requests per minute, want the portal's 300", limit)
	}
}
