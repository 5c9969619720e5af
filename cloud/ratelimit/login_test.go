// SPDX-License-Identifier: Apache-2.0

package ratelimit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestClaimLogin checks when the limiter grants the reservations of a login: all at once, before all other waiting calls, and in turn for
// each client.
func TestClaimLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := spent(t, 5)
		refusedUntil(t, l, "read", Read)
		reservations, at := tryLogin(l, "a", 3)
		if told := time.Until(at).Round(time.Millisecond); reservations != nil || told < 2900*time.Millisecond || told > 3*time.Second {
			t.Fatalf("%d reservations, RetryAt in %v", len(reservations), told)
		}
		if _, at = tryLogin(l, "b", 1); time.Until(at) < 1900*time.Millisecond { // logins take turns
			t.Errorf("RetryAt of another login is in %v", time.Until(at))
		}
		time.Sleep(3500 * time.Millisecond)
		refusedUntil(t, l, "read", Read)
		if reservations, _ = tryLogin(l, "a", 3); reservations != nil {
			t.Error("a login got the tokens of another one")
		}
		time.Sleep(time.Second)
		if other, _ := tryLogin(l, "b", 1); len(other) != 1 {
			t.Errorf("%d reservations for a login of one request", len(other))
		}
		reservations, _ = tryLogin(l, "a", 3)
		if len(reservations) != 3 {
			t.Fatalf("%d reservations for a login of three requests", len(reservations))
		}
		if n := l.Stats().Waiting[Login]; n != 0 {
			t.Errorf("%d places are left", n)
		}
		for _, r := range reservations[:2] {
			if ok, err := l.Spend(r); !ok {
				t.Error(err)
			}
		}
		reservations[2].Cancel()
		if n := len(l.reservations); n != 1 { // the other login's
			t.Errorf("%d reservations are left", n)
		}
	})
}

// TestPlacesOfALoginAreKept checks that the places of a login stay until some time after RetryAt, like any place.
func TestPlacesOfALoginAreKept(t *testing.T) {
	for late, kept := range map[time.Duration]bool{placeGrace - 2*time.Second: true, placeGrace + 2*time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			l := spent(t, 5)
			_, at := tryLogin(l, "a", 3)
			time.Sleep(time.Until(at) + late)
			l.Stats()
			if n := len(l.queue.places); (n == 3) != kept {
				t.Errorf("%d places are left %v after the time", n, late)
			}
		})
	}
}

// TestLoginWaits checks that a client that may wait gets the reservations when there are enough tokens, or when the gate opens after a 429. The
// error names what it waited for if its context ends.
func TestLoginWaits(t *testing.T) {
	type row struct {
		status      int // of the request before
		least, most time.Duration
	}
	each(t, map[string]row{
		"for tokens":   {200, 2900 * time.Millisecond, 4 * time.Second},
		"for the gate": {429, 30 * time.Second, 40 * time.Second},
	}, func(t *testing.T, test row) {
		l := spent(t, 5)
		time.Sleep(time.Second)
		send(t, l, granted(t, l, "last", Read), test.status, "Retry-After", "30")
		start := time.Now()
		reservations, err := l.WaitLogin(t.Context(), "a", 3)
		if waited := time.Since(start); err != nil || len(reservations) != 3 || waited < test.least || waited > test.most {
			t.Errorf("%v after %v", err, waited)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.WaitLogin(canceled, "a", 3); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// tryLogin returns the reservations of a login, or the time at which they are expected.
func tryLogin(l *Limiter, flow string, requests int) ([]*Reservation, time.Time) {
	reservations, err := l.ReserveLogin(flow, requests)
	at, _ := retryAt(err)
	return reservations, at
}
