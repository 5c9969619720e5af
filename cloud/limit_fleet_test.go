// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, n)) }

// untilDone repeats a call as a controller would, at RetryAt.
func untilDone(t *testing.T, call func() error) {
	for {
		err := call()
		if err == nil {
			return
		}
		at, ok := RetryAt(err)
		if !ok || !IsRateLimited(err) {
			t.Error(err)
			return
		}
		if !at.After(time.Now()) {
			t.Errorf("RetryAt %v is not in the future", at)
		}
		time.Sleep(time.Until(at))
	}
}

// TestNeighbourOnTheAccount checks the client while another user uses half of the account. With or without the portal's headers, fewer than
// 1 in 100 of our requests are refused, and the client uses most of what the neighbour leaves.
func TestNeighbourOnTheAccount(t *testing.T) {
	for _, headers := range []bool{true, false} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("headers=%v/seed=%d", headers, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					portal := newPortalLimit(20*time.Millisecond, answers(200, `{"versions":[]}`))
					portal.headers = headers
					config := testConfig(portal)
					config.Limiter = ratelimit.NewLimiter(ratelimit.Options{Rand: seeded(seed)})
					c := newClient(t, config)
					stop := make(chan struct{})
					var group sync.WaitGroup
					var theirs int
					group.Go(func() { theirs = portal.neighbour(seeded(seed), 2.5, stop) })
					for i := range 100 {
						group.Go(func() {
							for !closed(stop) {
								untilDone(t, func() error { return readWithReservation(t, c, "cluster-"+strconv.Itoa(i)) })
							}
						})
					}
					time.Sleep(10 * time.Minute)
					close(stop)
					group.Wait()
					if portal.refused*100 >= portal.requests {
						t.Errorf("%d of %d requests were rate limited", portal.refused, portal.requests)
					}
					if portal.requests < 1200 { // of about 1550
						t.Errorf("only %d requests in 10 minutes", portal.requests)
					}
					t.Logf("%d of %d requests were rate limited, %d of the neighbour's", portal.refused, portal.requests, theirs)
				})
			})
		}
	}
}

func readWithReservation(t *testing.T, c *Client, flow string) error {
	reservation, err := c.Reserve(flow, ratelimit.Read)
	if err != nil {
		return err
	}
	defer reservation.Cancel()
	_, err = c.KubernetesVersions(WithReservation(t.Context(), reservation))
	return err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
