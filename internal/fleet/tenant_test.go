// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// neighbours is the number of clusters of the second tenant. Each is scaled once.
const neighbours = 100

// TestSecondTenant checks how long a change waits while one tenant creates a thousand clusters and another one scales now and then.
func TestSecondTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, options{clusters: 1000, takes: 2 * time.Minute})
		defer f.portal.Close()
		ids := f.neighbours()
		waits := make([]time.Duration, neighbours)
		var storm sync.WaitGroup
		storm.Go(f.run)
		for i, id := range ids {
			time.Sleep(5*time.Second + 37*time.Millisecond) // not in phase with the tokens
			storm.Go(func() { waits[i] = f.scale(id, i) })
		}
		storm.Wait()
		p50, p99 := quantile(waits, 0.5), quantile(waits, 0.99)
		t.Logf("from the spec to the portal: p50 %v p99 %v", p50, p99)
		if p99 > 2*time.Second || f.count(http.StatusTooManyRequests) > 0 {
			t.Errorf("p99 %v, %d × 429", p99, f.count(http.StatusTooManyRequests))
		}
	})
}

func neighbour(i int) string { return fmt.Sprintf("tenant-b/cluster-%d", i) }

// neighbours creates the second tenant's clusters before the measurement, with another limiter.
func (f *fleet) neighbours() (ids []string) {
	client := f.client
	f.client = f.newClient()
	defer func() { f.client = client }()
	for i := range neighbours {
		f.wakes[neighbour(i)] = make(chan struct{}, 1)
	}
	var group sync.WaitGroup
	for i := range neighbours {
		group.Go(f.creation(neighbour(i)).run)
	}
	group.Wait()
	for _, c := range f.portal.Clusters() {
		ids = append(ids, c.ID)
	}
	time.Sleep(time.Minute) // until the account is quiet again
	return ids
}

// scale scales one of the second tenant's clusters, and returns how long it took until the request was sent.
func (f *fleet) scale(id string, i int) (waited time.Duration) {
	changed := time.Now()
	o := &object{fleet: f, client: f.client, flow: neighbour(i), kind: "scale", class: ratelimit.Mutation, send: func(ctx context.Context) (cloud.Job, error) {
		waited = time.Since(changed)
		return f.client.ScaleCluster(ctx, id, 2)
	}}
	o.run()
	return waited
}

// TestNoticed checks how late the end of a job is noticed while many jobs run all the time, and their durations are known.
func TestNoticed(t *testing.T) {
	for _, test := range []struct {
		jobs   int
		takes  time.Duration
		within time.Duration // limit for 99 of 100
	}{
		{60, 2 * time.Minute, 10 * time.Second},
		{60, 8 * time.Minute, 10 * time.Second},
		{300, 8 * time.Minute, 30 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d of %v", test.jobs, test.takes), func(t *testing.T) {
			skipLongJobs(t, test.takes)
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, options{clusters: test.jobs, takes: test.takes, spread: 0.2})
				defer f.portal.Close()
				late := f.turnOver(3)
				p50, p99 := quantile(late, 0.5), quantile(late, 0.99)
				t.Logf("noticed after p50 %.1f s p99 %.1f s", p50.Seconds(), p99.Seconds())
				if p99 > test.within || f.count(http.StatusTooManyRequests) > 0 {
					t.Errorf("p99 is %v, want at most %v; %d × 429", p99, test.within, f.count(http.StatusTooManyRequests))
				}
			})
		})
	}
}

// turnOver makes each object create one cluster after the other, with different start times. It returns how late the ends of the jobs were
// noticed, except for the first job of each object.
func (f *fleet) turnOver(rounds int) (late []time.Duration) {
	var mu sync.Mutex
	noticed := map[string]time.Time{}
	var group sync.WaitGroup
	for i, o := range f.objects {
		group.Go(func() {
			time.Sleep(f.options.takes * time.Duration(i) / time.Duration(len(f.objects)))
			for round := range rounds {
				next := f.creation(o.flow)
				next.run()
				mu.Lock()
				if round > 0 {
					noticed[next.job.ID] = next.noticed
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for _, job := range f.portal.Jobs() {
		if at, counts := noticed[job.ID]; counts {
			late = append(late, at.Sub(job.Ended))
		}
	}
	return late
}
