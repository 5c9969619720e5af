// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// granted reserves, and fails the test if the limiter refuses.
func granted(t *testing.T, l *ratelimit.Limiter, flow string, class ratelimit.Class) *ratelimit.Reservation {
	t.Helper()
	r, err := l.Reserve(flow, class)
	if err != nil {
		t.Fatalf("%s: %v", flow, err)
	}
	return r
}

// TestGateClosesOverAReservation checks a call whose reservation was granted before a 429 closed the gate. The client returns an error with a
// RetryAt, and leaves no place in the queue. So does one that waits: who brings a reservation decides how long to wait, and until when.
func TestGateClosesOverAReservation(t *testing.T) {
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			config := testConfig(answersWith(200, `{"versions":[]}`))
			config.Wait = wait
			config.Limiter = ratelimit.NewLimiter(ratelimit.Options{})
			c := newClient(t, config)
			if err := look(t, c); err != nil {
				t.Fatal(err)
			}
			reservation := granted(t, config.Limiter, "cluster", ratelimit.Read)
			refused := granted(t, config.Limiter, "another", ratelimit.Read)
			if ok, err := config.Limiter.Spend(refused); !ok {
				t.Fatal(err)
			}
			refused.Settle(true, &ratelimit.Response{Limited: true, Header: http.Header{"Retry-After": {"10"}}, At: time.Now()})
			opens := config.Limiter.Stats().ClosedTo
			_, err := c.KubernetesVersions(WithReservation(t.Context(), reservation))
			at, ok := RetryAt(err)
			if !IsRateLimited(err) || !ok || !at.Equal(opens) {
				t.Errorf("RetryAt %v, but the gate opens at %v: %v", at, opens, err)
			}
			if n := config.Limiter.Stats().Waiting[ratelimit.Read]; n != 0 {
				t.Errorf("%d places are left in the queue", n)
			}
			if !wait {
				return
			}
			if err := look(t, c); err != nil || time.Now().Before(opens) {
				t.Errorf("a client that waits called before the gate opened: %t, %v", time.Now().Before(opens), err)
			}
		})
	}
}

// TestReservationOfTheContext checks that a call spends the reservation of its context, even after a login, and else makes its own.
func TestReservationOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := testConfig(answersWith(202, `{"jobId":"j","status":"pending"}`))
		config.Limiter = ratelimit.NewLimiter(ratelimit.Options{Burst: 3, Limit: 1})
		c := newClient(t, config)
		g := config.Limiter
		reservation := granted(t, g, "cluster", ratelimit.Mutation)
		defer reservation.Cancel()
		ctx := WithReservation(t.Context(), reservation)
		if _, err := c.ScaleCluster(ctx, "c", 3); err != nil {
			t.Fatal(err)
		}
		if n := g.Stats().Reserved; n != 0 {
			t.Errorf("%d reservations were not spent", n)
		}
		if _, err := c.ScaleCluster(ctx, "c", 3); err != nil { // the third token
			t.Fatal(err)
		}
		if _, err := c.ScaleCluster(ctx, "c", 3); which(t, err) != "rate limited" {
			t.Errorf("without a token: %v", err)
		}
	})
}

// TestFlowOfTheContext checks that a call without a reservation takes a place under the flow of its context, which the limiter wakes.
func TestFlowOfTheContext(t *testing.T) {
	for _, named := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var woken []string
			config := testConfig(answersWith(200, `{"versions":[]}`))
			config.Limiter = ratelimit.NewLimiter(ratelimit.Options{Limit: 60, Burst: 2, Wake: func(flow string) { woken = append(woken, flow) }})
			c := newClient(t, config)
			ctx := t.Context()
			if named {
				ctx = WithFlow(ctx, "tenant/cluster")
			}
			if _, err := c.KubernetesVersions(ctx); err != nil { // and a login
				t.Fatal(err)
			}
			if _, err := c.KubernetesVersions(ctx); !IsRateLimited(err) || !strings.HasPrefix(err.Error(), "GET /kubernetes-versions: ") {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			if got := strings.Join(woken, " "); got != map[bool]string{true: "tenant/cluster"}[named] {
				t.Errorf("named %t, woken %q", named, got)
			}
			if _, err := c.KubernetesVersions(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitOfAClient checks that the error of a wait that ends with its context names both, and that nothing was sent.
func TestWaitOfAClient(t *testing.T) {
	config := testConfig(noTransport{t})
	config.Limiter = ratelimit.NewLimiter(ratelimit.Options{Limit: 1, Burst: 1})
	granted(t, config.Limiter, "a", ratelimit.Read)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newClient(t, config).Wait(ctx, "b", ratelimit.Read); !errors.Is(err, context.Canceled) || which(t, err) != "unavailable" {
		t.Error(err)
	}
}

// TestWaitingClientRepeats429 checks that a client that may wait repeats even a create, after growing pauses, and up to five times.
func TestWaitingClientRepeats429(t *testing.T) {
	for refusals, sent := range map[int]int{3: 4, 99: 1 + maxWaitedReplays} {
		synctest.Test(t, func(t *testing.T) {
			portal := newByPath(nil)
			portal.serve = map[string]func(*http.Request) *http.Response{"/kubernetes-clusters": func(*http.Request) *http.Response {
				if portal.calls["/kubernetes-clusters"] <= refusals {
					return respond(429, "")
				}
				return respond(202, `{"jobId":"j","status":"pending"}`)
			}}
			config := testConfig(portal)
			config.Wait = true
			start := time.Now()
			job, err := newClient(t, config).CreateCluster(t.Context(), CreateClusterRequest{})
			if gaveUp := refusals == 99; gaveUp != IsRateLimited(err) || gaveUp == (job.ID == "j") || portal.calls["/kubernetes-clusters"] != sent {
				t.Errorf("%d refusals: %+v after %d requests: %v", refusals, job, portal.calls["/kubernetes-clusters"], err)
			}
			if took := time.Since(start); took < 7*time.Second { // 1 + 2 + 4
				t.Errorf("backed off for %v only", took)
			}
		})
	}
}

// TestLoginReservesTogether checks that the three requests of a login come without a pause on a busy account, or the code would be lost.
func TestLoginReservesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		portal := newGuarded(t)
		config := testConfig(portal)
		config.TOTPSeed, config.Limiter = testSeed, ratelimit.NewLimiter(ratelimit.Options{Limit: 60, Burst: 5})
		c := newClient(t, config)
		for range 5 {
			if ok, err := config.Limiter.Spend(granted(t, config.Limiter, "others", ratelimit.Read)); !ok {
				t.Fatal(err)
			}
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

// TestOutageBackoff checks the pauses between logins while the portal is down. A login resets them, and the portal may ask for longer ones.
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
		d.retryAfter = "600"
		gaps(600)
		d.down = false
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		d.down, d.retryAfter = true, ""
		d.revokeAll()
		gaps(5, 10)
	})
}
