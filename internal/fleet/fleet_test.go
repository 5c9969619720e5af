// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

var size = flag.Int("clusters", 0, "measure so many clusters in TestMeasure")

// latency is the round-trip time of a request.
const latency = 40 * time.Millisecond

// options configure a run.
type options struct {
	clusters int
	takes    time.Duration
	spread   float64       // by which job durations vary
	slow     time.Duration // additional delay of the answers to creations
	asleep   bool          // objects are not woken, but come back at RetryAt
	managers int           // number of managers that divide the clusters; 0 means one
	share    float64       // each manager's share of the account; 0 means all of it
	quiet    bool          // the portal sends its headers only with a 429, and no option sets the limit
	window   bool          // the portal says what is left of the minute instead of the burst
}

// fleet is one account with all its clients.
type fleet struct {
	t       *testing.T
	options options
	portal  *emulator.Portal
	client  *cloud.Client
	objects []*object
	wakes   map[string]chan struct{} // by flow
	start   time.Time
}

func newFleet(t *testing.T, options options) *fleet {
	t.Helper()
	portal, err := emulator.New(emulator.Options{
		Durations: emulator.Durations{Pending: -1, Create: options.takes, Spread: options.spread}, Seed: 1,
		Shapes: emulator.Shapes{QuietLimits: options.quiet, WindowRemaining: options.window},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, options: options, portal: portal, wakes: map[string]chan struct{}{}}
	managers := []*cloud.Client{f.newClient()}
	for range options.managers - 1 {
		managers = append(managers, f.newClient())
	}
	f.client = managers[0]
	for i := range options.clusters {
		o := f.creation(fmt.Sprintf("tenant-a/cluster-%d", i))
		o.client = managers[i%len(managers)]
		f.objects = append(f.objects, o)
		f.wakes[o.flow] = make(chan struct{}, 1)
	}
	return f
}

// wake adds a flow's object to the work queue.
func (f *fleet) wake(flow string) {
	select {
	case f.wakes[flow] <- struct{}{}:
	default: // the object is already queued
	}
}

func (f *fleet) newClient() *cloud.Client {
	email, password := f.portal.Credentials()
	options := ratelimit.Options{
		Limit: 300, AccountShare: f.options.share, Rand: rand.New(rand.NewPCG(1, 1)), Wake: f.wake,
	}
	if f.options.asleep {
		options.Wake = nil
	}
	if f.options.quiet {
		options.Limit = 0
	}
	client, err := cloud.New(cloud.Config{
		BaseURL: f.portal.URL(), Email: email, Password: password, Transport: distance{f}, Limiter: ratelimit.NewLimiter(options),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return client
}

// distance adds the latency to each request.
type distance struct{ *fleet }

func (d distance) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(latency / 2)
	answer, err := d.portal.Transport().RoundTrip(r)
	if r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/login") {
		time.Sleep(d.options.slow)
	}
	time.Sleep(latency / 2)
	return answer, err
}

func (f *fleet) request(name string) cloud.CreateClusterRequest {
	return cloud.CreateClusterRequest{
		Name: strings.ReplaceAll(name, "/", "-"), Description: "d", ZoneID: "z", KubernetesVersionID: f.portal.Versions()[0].ID,
		ServiceOfferingID: "o", Size: 1, ControlNodes: 1, SSHKeyPair: "k", VPCID: f.portal.VPCs()[0].ID,
	}
}

// run creates all clusters.
func (f *fleet) run() {
	f.start = time.Now()
	var group sync.WaitGroup
	for _, o := range f.objects {
		group.Go(o.run)
	}
	group.Wait()
}

// result has the figures of a run. Times are since its start.
type result struct {
	all, median           time.Duration // until all or half of the clusters have their kubeconfig
	allBound, medianBound time.Duration
	late50, late99        time.Duration // from the end of a job until the object notices
	polls                 float64       // per job
	requests, limited     int           // limited is how many requests got a 429
}

func (f *fleet) result() result {
	jobs := map[string]emulator.Job{}
	var takes []time.Duration
	for _, job := range f.portal.Jobs() {
		if job.Kind == emulator.JobCreateCluster {
			jobs[job.ID] = job
			takes = append(takes, job.Due.Sub(job.Accepted))
		}
	}
	var ready, late, ideal []time.Duration
	for _, o := range f.objects {
		ready = append(ready, o.ready.Sub(f.start))
		late = append(late, o.noticed.Sub(jobs[o.job.ID].Ended))
	}
	for _, at := range Bound(f.start, latency, takes) {
		ideal = append(ideal, at.Sub(f.start))
	}
	return result{
		all: quantile(ready, 1), median: quantile(ready, 0.5), allBound: quantile(ideal, 1), medianBound: quantile(ideal, 0.5),
		late50: quantile(late, 0.5), late99: quantile(late, 0.99), polls: float64(len(f.requests("/jobs/"))) / float64(len(f.objects)),
		requests: len(f.requests("")), limited: f.count(http.StatusTooManyRequests),
	}
}

// requests returns the requests to paths with the given prefix.
func (f *fleet) requests(prefix string) (entries []emulator.LogEntry) {
	for _, e := range f.portal.RequestLog() {
		if e.Method != "" && strings.HasPrefix(e.Path, prefix) { // entries without a method are changes of state
			entries = append(entries, e)
		}
	}
	return entries
}

// count returns how many answers had the status.
func (f *fleet) count(status int) (count int) {
	for _, e := range f.portal.RequestLog() {
		if e.Status == status {
			count++
		}
	}
	return count
}

func quantile(all []time.Duration, q float64) time.Duration {
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}

func (r result) String() string {
	s := time.Duration.Seconds
	all, median := r.ratios()
	return fmt.Sprintf("all %5.0f s = %.3f × bound, median %5.0f s = %.3f × bound, noticed after p50 %4.1f s p99 %5.1f s, %4.1f polls, %d × 429 of %d",
		s(r.all), all, s(r.median), median, s(r.late50), s(r.late99), r.polls, r.limited, r.requests)
}

// measure runs a fleet in virtual time.
func measure(t *testing.T, options options) (r result) {
	t.Helper()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, options)
		defer f.portal.Close()
		f.run()
		r = f.result()
	})
	t.Logf("%+v: %v (in %.1f s)", options, r, time.Since(began).Seconds())
	return r
}

// ratios returns how many times the bound it took until all and half of the clusters were ready.
func (r result) ratios() (all, median float64) {
	return r.all.Seconds() / r.allBound.Seconds(), r.median.Seconds() / r.medianBound.Seconds()
}

func (r result) judge(t *testing.T, most, mostMedian float64) {
	t.Helper()
	all, median := r.ratios()
	if all > most || median > mostMedian || r.limited > 0 {
		t.Errorf("%.3f × the bound and %.3f × its median, want at most %.2f and %.2f; %d × 429", all, median, most, mostMedian, r.limited)
	}
}

// TestFleet compares the client with the bound, which knows when jobs end. The client does not know that. For 25 jobs of two minutes, the 5
// s between two looks alone cost 1.04 ×. If any job may end at any time, looks at running jobs cost additional time while tokens are
// scarce. A client that knew the distribution of the durations, and looked at jobs by probability, would need 1.10 × for 300 jobs of two
// minutes ± 20 %.
func TestFleet(t *testing.T) {
	for _, test := range []struct {
		options     options
		all, median float64
	}{
		{options{clusters: 25, takes: 2 * time.Minute}, 1.05, 1.05},
		{options{clusters: 25, takes: 8 * time.Minute, spread: 0.2}, 1.02, 1.05},
		{options{clusters: 300, takes: 2 * time.Minute}, 1.03, 1.05},
		{options{clusters: 300, takes: 2 * time.Minute, spread: 0.2}, 1.17, 1.23},
		{options{clusters: 300, takes: 8 * time.Minute, spread: 0.2}, 1.03, 1.10},
		{options{clusters: 300, takes: 2 * time.Minute, asleep: true}, 1.06, 1.08},
		{options{clusters: 300, takes: 2 * time.Minute, slow: 3 * time.Second}, 1.15, 1.15},
		{options{clusters: 300, takes: 2 * time.Minute, window: true}, 1.10, 1.10},
	} {
		t.Run(fmt.Sprintf("%+v", test.options), func(t *testing.T) {
			skipLongJobs(t, test.options.takes)
			measure(t, test.options).judge(t, test.all, test.median)
		})
	}
}

// skipLongJobs skips a test whose jobs take minutes, if -short is set: polls of such jobs take most of the time of this package's tests.
func skipLongJobs(t *testing.T, takes time.Duration) {
	t.Helper()
	if testing.Short() && takes > 2*time.Minute {
		t.Skip("make test-race RACED=all, and so make nightly, also measures jobs of 8 minutes")
	}
}

// TestMeasure prints the figures of a fleet of any size, and checks the limits of a large one.
func TestMeasure(t *testing.T) {
	if *size == 0 {
		t.Skip("set -clusters to the number of clusters to measure")
	}
	for _, takes := range []time.Duration{2 * time.Minute, 8 * time.Minute} {
		measure(t, options{clusters: *size, takes: takes}).judge(t, 1.05, 1.05)
		measure(t, options{clusters: *size, takes: takes, spread: 0.2}).judge(t, 1.17, 1.23)
	}
}

// TestShares checks that managers which divide an account by AccountShare are together as fast as one manager with the whole account, and that
// the portal refuses none of their requests. The portal may name the limit in every answer or only in refusals.
func TestShares(t *testing.T) {
	for managers, quiet := range map[int]bool{2: false, 3: true} {
		measure(t, options{clusters: 300, takes: 2 * time.Minute, managers: managers, share: 1 / float64(managers), quiet: quiet}).judge(t, 1.05, 1.05)
	}
}

// TestBound checks the bound for 100 jobs of a minute, which cost a login and 300 requests. Each additional request costs 0.2 s once the
// burst is used up. The last creation is the 101st request, so it is sent at 10.2 s. The burst is full again after the first minute, and 200
// requests take 30 s from there.
func TestBound(t *testing.T) {
	start := time.Unix(0, 0)
	for at, want := range map[time.Duration]time.Duration{ // of 50 others
		time.Second:      90 * time.Second, // among creations
		30 * time.Second: 90 * time.Second, // while all wait
		70 * time.Second: 100 * time.Second,
		5 * time.Minute:  90 * time.Second, // afterwards
	} {
		ready := Bound(start, 0, slices.Repeat([]time.Duration{time.Minute}, 100), slices.Repeat([]time.Time{start.Add(at)}, 50)...)
		if got := ready[len(ready)-1].Sub(start); (got - want).Abs() > 300*time.Millisecond {
			t.Errorf("with 50 others after %s, all are ready after %s, not %s", at, got, want)
		}
	}
}
