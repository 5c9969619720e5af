// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestBurst checks the standard tier and a small account, which allows 60 requests a minute, 10 of them at once. At first, and then after
// each of ten idle periods, many clusters ask for something at the same moment. None is refused, and all have their answer in the time that
// the account needs, whether the portal says what is left of the burst or what is left of the minute, which is six times as much.
// A small account whose portal names its limit with a 429 only is learned from the first refusals.
func TestBurst(t *testing.T) {
	small := emulator.RateLimit{PerMinute: 60, Burst: 10}
	minute := emulator.Shapes{WindowRemaining: true}
	for name, test := range map[string]struct {
		limit    emulator.RateLimit
		shapes   emulator.Shapes
		clusters int
		within   time.Duration // they have their answer
		learns   bool          // the first of them may be refused, and take longer
	}{
		// 9 at once, and 21 or, with the login, 22 at one a second
		"small, left of the burst":       {limit: small, clusters: 30, within: 30 * time.Second},
		"small, left of the minute":      {limit: small, shapes: minute, clusters: 30, within: 30 * time.Second},
		"small, headers with a 429 only": {limit: small, shapes: emulator.Shapes{QuietLimits: true}, clusters: 30, within: 30 * time.Second, learns: true},
		// 45 at once, and then 5 a second. When nothing is left of the minute, fewer
		"standard, left of the burst":  {clusters: 300, within: 65 * time.Second},
		"standard, left of the minute": {shapes: minute, clusters: 300, within: 65 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newAccount(t, emulator.Options{RateLimit: test.limit, Shapes: test.shapes}, cloud.Config{})
				for round := range 11 {
					before, began := f.count(http.StatusTooManyRequests), time.Now()
					f.each(test.clusters, f.lookUp)
					refused, took := f.count(http.StatusTooManyRequests)-before, time.Since(began).Round(time.Second)
					if learns := test.learns && round == 0; !learns && (refused > 0 || took > test.within) {
						t.Errorf("round %d: %d requests took %v, with %d × 429", round, test.clusters, took, refused)
					}
					time.Sleep(2 * time.Minute)
				}
			})
		})
	}
}

// each calls do for so many flows at the same moment, and waits for all of them.
func (f *fleet) each(flows int, do func(flow string)) {
	var group sync.WaitGroup
	for i := range flows {
		group.Go(func() { do(fmt.Sprintf("team/cluster-%d", i)) })
	}
	group.Wait()
}

// newAccount returns an account with one client, whose limiter knows nothing of the account yet.
func newAccount(t *testing.T, options emulator.Options, config cloud.Config) *fleet {
	t.Helper()
	portal, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	f := &fleet{t: t, portal: portal}
	config.BaseURL, config.Transport = portal.URL(), distance{f}
	config.Email, config.Password = portal.Credentials()
	var pool cloud.Pool
	if f.client, err = pool.Client(config); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestNeighbour checks that the client uses most of what another user leaves of the account, and that hardly a request is refused.
func TestNeighbour(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			neighbour := emulator.Fault{OthersPerMinute: 150}
			f := newAccount(t, emulator.Options{Shapes: emulator.Shapes{QuietLimits: quiet}, Faults: []emulator.Fault{neighbour}}, cloud.Config{})
			start := time.Now()
			f.each(100, func(flow string) {
				for time.Since(start) < 10*time.Minute {
					f.lookUp(flow)
				}
			})
			served, refused := f.count(http.StatusOK), f.count(http.StatusTooManyRequests)
			if refused*100 >= served || served < 1200 { // of about 1550
				t.Errorf("headers with a 429 only: %t: %d requests in 10 minutes, and %d × 429", quiet, served, refused)
			}
		})
	}
}

// TestLoginOfATinyAccount checks an account whose burst is smaller than a login with a second factor needs. A first login that fails says so
// in its headers. The next one must not wait for more than the account ever has.
func TestLoginOfATinyAccount(t *testing.T) {
	for _, burst := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			const seed = "KRSXG5CTMVRXEZLUKN2XAZLSKNSWG4TF"
			f := newAccount(t, emulator.Options{
				RateLimit: emulator.RateLimit{PerMinute: 60, Burst: burst},
				Users:     []emulator.User{{Email: "robot@portal.example", Password: "a password", TOTPSeed: seed}},
				Faults:    []emulator.Fault{{Path: "/login", Status: http.StatusServiceUnavailable, Count: 1}},
			}, cloud.Config{TOTPSeed: seed})
			for start := time.Now(); ; {
				reservation, err := f.client.Reserve("team/cluster", ratelimit.Read)
				if err == nil {
					_, err = f.client.KubernetesVersions(cloud.WithReservation(t.Context(), reservation))
					reservation.Cancel()
				}
				if err == nil {
					return
				}
				at, later := cloud.RetryAt(err)
				if !later || time.Since(start) > 2*time.Minute {
					t.Fatalf("with a burst of %d, after %v: %v", burst, time.Since(start), err)
				}
				time.Sleep(time.Until(at))
			}
		})
	}
}

// lookUp makes one request for a flow, which comes back when the limiter says.
func (f *fleet) lookUp(flow string) {
	for {
		_, err := f.client.KubernetesVersions(cloud.WithFlow(f.t.Context(), flow))
		if err == nil {
			return
		}
		at, later := cloud.RetryAt(err)
		if !later || !cloud.IsRateLimited(err) {
			f.t.Error(err)
			return
		}
		time.Sleep(time.Until(at))
	}
}
