// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestLoginReservesTogether checks that a login with a second factor makes its three requests without a pause on an account that uses every
// token. If the login reserved them one by one, it would end without the last, and the code would be lost.
func TestLoginReservesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		config := testConfig(portal)
		config.TOTPSeed, config.Limiter = testSeed, ratelimit.NewLimiter(ratelimit.Options{Limit: 60, Burst: 5})
		c := newClient(t, config)
		for range 5 {
			granted(t, config.Limiter, "others", ratelimit.Read)
		}
		untilDone(t, func() error { return look(t, c) })
		if want := []string{"/login", "/mfa/send-otp", "/mfa/verify-otp", "/kubernetes-versions"}; !slices.Equal(portal.seen, want) {
			t.Errorf("requests %v", portal.seen)
		}
	})
}

// TestUnusedReservationsAreCanceled checks that a login which ends early cancels the reservations of its remaining requests.
func TestUnusedReservationsAreCanceled(t *testing.T) {
	for _, status := range []int{200, 401} {
		config := testConfig(newByPath(map[string]func(*http.Request) *http.Response{"/login": always(status, `{"token":"t","user":{"id":"u"}}`)}))
		config.Limiter, config.TOTPSeed = ratelimit.NewLimiter(ratelimit.Options{}), testSeed
		_ = look(t, newClient(t, config))
		if n := config.Limiter.Stats().Reserved; n != 0 {
			t.Errorf("login answered %d: %d reservations are left", status, n)
		}
	}
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
