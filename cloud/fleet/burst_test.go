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

// TestBurstOfASmallAccount checks an account that allows 60 requests a minute, 10 of them at once. At first, and then after each of ten
// idle periods, 30 clusters ask for something at the same moment. None is refused, and all have their answer in the time that the account needs.
// A portal that names its limit with a 429 only is learned from the first refusals.
func TestBurstOfASmallAccount(t *testing.T) {
	t.Run("headers with every answer", func(t *testing.T) { burstOfASmallAccount(t, false) })
	t.Run("headers with a 429 only", func(t *testing.T) { burstOfASmallAccount(t, true) })
}

func burstOfASmallAccount(t *testing.T, quiet bool) {
	synctest.Test(t, func(t *testing.T) {
		portal, err := emulator.New(emulator.Options{
			RateLimit: emulator.RateLimit{PerMinute: 60, Burst: 10}, Shapes: emulator.Shapes{QuietLimits: quiet},
		})
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{t: t, portal: portal}
		defer portal.Close()
		email, password := portal.Credentials()
		var pool cloud.Pool
		client, err := pool.Client(cloud.Config{BaseURL: portal.URL(), Email: email, Password: password, Transport: distance{f}})
		if err != nil {
			t.Fatal(err)
		}
		var refused [11]int
		for round := range refused {
			before := f.count(http.StatusTooManyRequests)
			began := time.Now()
			var clusters sync.WaitGroup
			for i := range 30 {
				clusters.Go(func() { f.lookUp(client, fmt.Sprintf("team/cluster-%d", i)) })
			}
			clusters.Wait()
			refused[round] = f.count(http.StatusTooManyRequests) - before
			learns := quiet && round == 0
			if took := time.Since(began); took > 30*time.Second && !learns { // 10 at once, and 20 or, with the login, 21 at one a second
				t.Errorf("round %d: 30 requests took %v", round, took)
			}
			if refused[round] > 0 && !learns {
				t.Errorf("round %d: %d × 429", round, refused[round])
			}
			time.Sleep(2 * time.Minute)
		}
		t.Logf("%d requests, with 429 in each round: %v", len(portal.RequestLog()), refused)
	})
}

// TestLoginOfATinyAccount checks an account whose burst is smaller than a login with a second factor needs. A first login that fails says so
// in its headers. The next one must not wait for more than the account ever has.
func TestLoginOfATinyAccount(t *testing.T) {
	for _, burst := range []int{3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			const seed = "KRSXG5CTMVRXEZLUKN2XAZLSKNSWG4TF"
			user := emulator.User{Email: "robot@portal.example", Password: "a password", TOTPSeed: seed}
			portal, err := emulator.New(emulator.Options{RateLimit: emulator.RateLimit{PerMinute: 60, Burst: burst}, Users: []emulator.User{user}})
			if err != nil {
				t.Fatal(err)
			}
			f := &fleet{t: t, portal: portal}
			defer portal.Close()
			if err := portal.Inject(emulator.Fault{Path: "/login", Status: 503, Count: 1}); err != nil {
				t.Fatal(err)
			}
			var pool cloud.Pool
			client, err := pool.Client(cloud.Config{
				BaseURL: portal.URL(), Email: user.Email, Password: user.Password, TOTPSeed: seed, Transport: distance{f},
			})
			if err != nil {
				t.Fatal(err)
			}
			for start := time.Now(); ; {
				reservation, err := client.Reserve("team/cluster", ratelimit.Read)
				if err == nil {
					_, err = client.KubernetesVersions(cloud.WithReservation(t.Context(), reservation))
					reservation.Cancel()
				}
				if err == nil {
					break
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
func (f *fleet) lookUp(client *cloud.Client, flow string) {
	for {
		_, err := client.KubernetesVersions(cloud.WithFlow(f.t.Context(), flow))
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
