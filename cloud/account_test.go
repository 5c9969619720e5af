// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// office is a portal whose users have their own passwords, and a rate limit whose headers are sent only with refusals.
type office struct {
	open    bool     // accepts any password
	limit   string   // limit header of a refused login
	closed  bool     // answer 429 to wrong passwords
	logins  int      // number of logins received
	answers []string // login answers, used in turn; if empty, the user's id is the e-mail
}

func (o *office) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/login" {
		return respond(200, `{"versions":[]}`), nil
	}
	o.logins++
	var body loginRequest
	_ = json.NewDecoder(r.Body).Decode(&body)
	switch right := o.open || body.Password == "pw"; {
	case !right && o.closed:
		a := respond(429, `{"error":{"code":"RATE_LIMITED","message":"m"}}`)
		a.Header.Set("Retry-After", "600")
		a.Header.Set("X-RateLimit-Limit", o.limit)
		return a, nil
	case !right:
		return respond(401, refusedToken), nil
	}
	if len(o.answers) > 0 {
		return respond(200, o.answers[(o.logins-1)%len(o.answers)]), nil
	}
	return respond(200, fmt.Sprintf(`{"token":"t","user":{"id":%q}}`, strings.ToLower(body.Email))), nil
}

// TestWrongPasswordSharesNoLimiter checks that a client with another user's e-mail address or account but a wrong password gets its own
// limiter, with a small budget. The portal's answers to this client must not affect the limiter of the other account.
func TestWrongPasswordSharesNoLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		o := &office{limit: "1", closed: true}
		right := testConfig(o)
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

// TestUnprovedBudget checks the budget of a client before its first successful login, and the RetryAt of a flow that finds the budget used
// up.
func TestUnprovedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		c := pooled(t, &pool, testConfig(&office{}))
		if limit := c.Limiter().Stats().Limit; limit != unprovedLimit {
			t.Errorf("%d requests a minute", limit)
		}
		refused := 0
		for i := range 300 {
			_, err := c.Reserve(strconv.Itoa(i), ratelimit.Poll)
			if err == nil {
				continue
			}
			refused++
			at, ok := RetryAt(err)
			if wait := time.Until(at); !IsRateLimited(err) || !ok || wait != 2*time.Second {
				t.Fatalf("flow %d: RetryAt is in %v: %v", i, wait, err)
			}
		}
		if granted := 300 - refused; granted != unprovedBurst-unprovedBurst/10-factorLogin {
			t.Errorf("%d reservations", granted)
		}
		if err := look(t, c); err != nil { // logs in, for which the budget suffices
			t.Fatal(err)
		}
		if _, err := c.Reserve("299", ratelimit.Poll); err != nil || c.Limiter().Stats().Limit != 300 {
			t.Errorf("with %+v after the login: %v", c.Limiter().Stats(), err)
		}
		for i := range 300 {
			if _, err := c.Reserve(strconv.Itoa(i), ratelimit.Poll); err != nil {
				if at, _ := RetryAt(err); i == 299 && time.Until(at) < 10*time.Second {
					t.Errorf("RetryAt of the last of 300 flows of a proved account is in %v", time.Until(at))
				}
			}
		}
	})
}

// TestReservationOfAnUnprovedClient checks that a reservation from before the login does not pay for a call after it. The call takes a
// reservation of the account.
func TestReservationOfAnUnprovedClient(t *testing.T) {
	var pool Pool
	c := pooled(t, &pool, testConfig(&office{}))
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
// of users whose identities name the same account. Users of different portals never share one.
func TestAccountOfALogin(t *testing.T) {
	var pool Pool
	o := &office{}
	at := func(base, email, account string) *ratelimit.Limiter {
		config := testConfig(o)
		config.BaseURL, config.Email, config.Account = base, email, account
		return proved(t, &pool, config).Limiter()
	}
	const here, there = "https://portal.test", "https://other.test"
	one := at(here, "a@portal.test", "")
	if at(here, "A@portal.test", "") != one {
		t.Error("the same user has another limiter under another spelling of the e-mail")
	}
	acme := at(here, "a@portal.test", "team-a/acme")
	for name, g := range map[string]*ratelimit.Limiter{
		"another user":          at(here, "b@portal.test", ""),
		"another portal":        at(there, "a@portal.test", ""),
		"the user by its name":  at(here, "b@portal.test", "user a@portal.test"),
		"another's account":     at(here, "b@portal.test", "team-b/acme"),
		"account of elsewhere":  at(there, "b@portal.test", "team-a/acme"),
		"the user with account": acme,
	} {
		if g == one || name != "the user with account" && g == acme {
			t.Errorf("%s shares the limiter", name)
		}
	}
	if at(here, "b@portal.test", "team-a/acme") != acme {
		t.Error("users of one account do not share its limiter")
	}
}

// TestLoginWithoutAUser checks that clients share no limiter if their logins name no user, because nothing shows that they belong together.
func TestLoginWithoutAUser(t *testing.T) {
	var pool Pool
	o := &office{answers: []string{`{"token":"t","user":{}}`}}
	a, b := testConfig(o), testConfig(o)
	b.Email = "other@example.test"
	first := proved(t, &pool, a)
	if proved(t, &pool, b).Limiter() == first.Limiter() {
		t.Error("two clients without a user id share a limiter")
	}
	if limit := first.Limiter().Stats().Limit; limit != 300 {
		t.Errorf("%d requests a minute", limit)
	}
}

// TestLoginAsAnother checks that the limiter belongs to the user and not to the e-mail address, which may become another user's.
func TestLoginAsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool Pool
		o := &office{answers: []string{`{"token":"t","user":{"id":"1"}}`, `{"token":"t","user":{"id":"2"}}`}}
		c := proved(t, &pool, testConfig(o))
		first := c.Limiter()
		time.Sleep(9 * time.Hour)
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		if c.Limiter() == first {
			t.Error("the new user of the e-mail address has the limiter of the previous user")
		}
	})
}

// TestReserveWhileTheLoginFails checks that Reserve returns no reservation for a call that cannot be made, so that the caller records no
// operation. The error names the reason and the time of the next login.
func TestReserveWhileTheLoginFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		c := newClient(t, testConfig(d))
		reserve := func(is func(error) bool, within time.Duration) {
			t.Helper()
			reservation, err := c.Reserve("cluster", ratelimit.Mutation)
			at, ok := RetryAt(err)
			if !is(err) || !ok || time.Until(at) <= 0 || time.Until(at) > within {
				t.Errorf("%v, %v, to come back in %v", reservation, err, time.Until(at))
			}
			reservation.Cancel()
			if poll, err := c.ReservePoll("cluster", ratelimit.RunningJob{ID: "job"}); !is(err) {
				t.Errorf("a poll: %v, %v", poll, err)
			}
		}
		d.password = "changed"
		_ = look(t, c)
		reserve(IsUnauthorized, refusalBackoff)
		d.password, d.down = "pw", true
		time.Sleep(refusalBackoff)
		_ = look(t, c)
		reserve(IsUnavailable, outageBackoff)
		d.down = false
		time.Sleep(outageBackoff)
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		d.down = true
		time.Sleep(8*time.Hour - time.Second) // the refresh fails, and the token is valid for one more second
		_ = look(t, c)
		if reservation, err := c.Reserve("cluster", ratelimit.Mutation); err != nil {
			t.Errorf("with a valid token: %v", err)
		} else {
			reservation.Cancel()
		}
		if _, err := c.ReservePoll("poll", ratelimit.RunningJob{ID: "job", Started: time.Now().Add(-time.Minute)}); err != nil {
			t.Errorf("a poll with a valid token: %v", err)
		}
		time.Sleep(time.Second)
		reserve(IsUnavailable, maxOutageBackoff)
	})
}

// TestConfiguredLimit checks the valid values of an identity's limit, and that the portal's limit overrides it. An identity must not change
// the limit of other accounts.
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
	if n := len(pool.limiters); n != 4 {
		t.Errorf("%d limiters for 4 limits", n)
	}
	config.RequestsPerMinute = 0
	larger := Pool{Options: ratelimit.Options{Limit: 1200}}
	if limit := proved(t, &larger, config).Limiter().Stats().Limit; limit != 1200 {
		t.Errorf("%d requests per minute, want the pool's 1200", limit)
	}
	config.RequestsPerMinute = 900
	config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
		a, err := answersWith(200, `{"versions":[]}`)(r)
		a.Header.Set("X-RateLimit-Limit", "300")
		return a, err
	})
	c := proved(t, &pool, config)
	if limit := c.Limiter().Stats().Limit; limit != 300 {
		t.Errorf("%d requests per minute, want the portal's 300", limit)
	}
}
