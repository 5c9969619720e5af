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

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestLoginReservesTogether checks that a login with a second factor succeeds on an account that uses every token: two hundred flows of
// another user wait, and one caller comes every few seconds or at RetryAt. If the login reserved its three requests one by one, the code
// would expire while the last request waits. Afterwards the caller gets no less than any of the other flows.
func TestLoginReservesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		config := testConfig(portal)
		config.TOTPSeed, config.Limiter = testSeed, ratelimit.NewLimiter(ratelimit.Options{Limit: 300})
		c := newClient(t, config)
		var group sync.WaitGroup
		var others atomic.Int64
		end := time.Now().Add(10 * time.Minute)
		const flows = 200
		for i := range flows {
			group.Go(func() {
				for time.Now().Before(end) {
					if tryCall(config.Limiter, strconv.Itoa(i), ratelimit.Poll) {
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
			t.Errorf("%d codes were requested, and %d sent", sent, verified)
		}
		if n := portal.count("/kubernetes-versions"); n < int(others.Load())/flows || others.Load() < 2500 {
			t.Errorf("%d requests with the token, and %d of others", n, others.Load())
		}
	})
}

// TestUnusedReservationsAreCanceled checks that a login which ends early cancels the reservations of its remaining requests.
func TestUnusedReservationsAreCanceled(t *testing.T) {
	for _, status := range []int{200, 401, 503} {
		config := testConfig(answersWith(status, ""))
		config.Limiter, config.TOTPSeed = ratelimit.NewLimiter(ratelimit.Options{}), testSeed
		if status != 200 {
			config.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return respond(status, ""), nil })
		}
		_ = look(t, newClient(t, config))
		if n := config.Limiter.Stats().Reserved; n != 0 {
			t.Errorf("login answered %d: %d reservations are left", status, n)
		}
	}
}

// tryCall reserves once and spends the reservation, or sleeps until RetryAt.
func tryCall(l *ratelimit.Limiter, flow string, class ratelimit.Class) bool {
	r, err := l.Reserve(flow, class)
	if err != nil {
		at, _ := RetryAt(limitError(err))
		time.Sleep(time.Until(at))
		return false
	}
	if ok, _ := l.Spend(r); !ok {
		return false
	}
	time.Sleep(40 * time.Millisecond)
	r.Settle(true, (&answer{status: 200, header: http.Header{}, at: time.Now()}).response())
	return true
}

// TestOutageBackoff checks the pauses between logins while the portal is down. A successful login resets them, and the portal may ask for
// longer ones.
func TestOutageBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		d.down = true
		c := newClient(t, testConfig(d))
		gaps := func(want ...time.Duration) {
			t.Helper()
			for _, gap := range want {
				before := len(d.logins)
				at, ok := RetryAt(look(t, c))
				if len(d.logins) != before+1 || !ok || time.Until(at) != gap*time.Second {
					t.Errorf("%d logins, the next in %v, want %v s", len(d.logins)-before, time.Until(at), int(gap))
				}
				if time.Sleep(time.Until(at) - time.Millisecond); !IsUnavailable(look(t, c)) || len(d.logins) != before+1 {
					t.Error("the client logs in before RetryAt")
				}
				time.Sleep(time.Millisecond)
			}
		}
		gaps(5, 10, 20, 40, 60, 60)
		d.down = false
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		d.down = true
		d.revokeAll()
		gaps(5, 10)
	})
	synctest.Test(t, func(t *testing.T) {
		s := &session{}
		asked := time.Now().Add(10 * time.Minute)
		err := s.remember(&Error{Status: 503, RetryAt: asked})
		if at, _ := RetryAt(err); !at.Equal(asked) {
			t.Errorf("the portal asked for 10 minutes: %v", time.Until(at))
		}
		if _, err := s.known(asked.Add(-time.Second)); !IsUnavailable(err) {
			t.Error(err)
		}
	})
}
