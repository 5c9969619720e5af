// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// jobBench is a portal with one job, and a machine that follows it.
type jobBench struct {
	*testing.T
	portal  *emulator.Portal
	client  *cloud.Client
	backoff outcome.Backoff
	op      *Operation
	ended   []bool // as observed: whether the job failed
}

// newJobBench starts a job (the creation of a VPC) that takes the given time. The faults affect that call and later ones.
func newJobBench(t *testing.T, takes time.Duration, faults ...emulator.Fault) *jobBench {
	t.Helper()
	portal, err := emulator.New(emulator.Options{
		Seed: 1, Users: []emulator.User{{Email: "a@portal.example", Password: "secret"}, {Email: "b@portal.example", Password: "secret"}}, Faults: faults,
		Durations: emulator.Durations{Pending: -1, VPC: takes},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	b := &jobBench{T: t, portal: portal, op: New(Create, "vpc")}
	b.client = b.newClient("a@portal.example")
	job, err := b.client.CreateVPC(t.Context(), cloud.CreateVPCRequest{Name: "vpc"})
	if err != nil {
		t.Fatal(err)
	}
	b.op.JobID = job.ID
	return b
}

func (b *jobBench) newClient(email string) *cloud.Client {
	b.Helper()
	client, err := cloud.New(cloud.Config{
		BaseURL: "https://portal.example", Email: email, Password: "secret", Transport: b.portal.Transport(),
	})
	if err != nil {
		b.Fatal(err)
	}
	return client
}

func (b *jobBench) machine() Runner {
	obj := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	return Runner{Object: obj, Backoff: &b.backoff, Portal: b.client, Flow: "default/a", Observe: func(_ Type, failed bool, _ time.Duration) {
		b.ended = append(b.ended, failed)
	}}
}

func (b *jobBench) look() (cloud.Job, bool, outcome.Outcome) {
	return b.machine().pollJob(context.Background(), b.op)
}

// polls are the times of the requests for the job.
func (b *jobBench) polls() (times []time.Time) {
	for _, e := range b.portal.RequestLog() {
		if e.Route == "/jobs/{job_id}" {
			times = append(times, e.Time)
		}
	}
	return times
}

// follow looks when the outcome says so and, to simulate events, every second, until the job has ended.
func (b *jobBench) follow(most time.Duration) (cloud.Job, bool, outcome.Outcome) {
	b.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Second) {
		job, gone, o := b.look()
		if o.IsDone() || gone {
			return job, gone, o
		}
	}
	b.Fatalf("the job has not ended after %s", most)
	return cloud.Job{}, false, outcome.Outcome{}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newJobBench(t, 23*time.Second)
		start := time.Now()
		b.machine().running(b.op)
		job, gone, o := b.follow(time.Minute)
		if !o.IsDone() || gone || job.Failed() {
			t.Fatalf("%+v %v %+v", job, gone, o)
		}
		last := start
		for _, at := range b.polls() {
			if between := at.Sub(last); between < pollAfterError {
				t.Errorf("asked again after %s", between)
			}
			last = at
		}
		// Every 5 seconds (specification, Jobs), so the fifth look sees the end.
		if n := len(b.polls()); n != 5 {
			t.Errorf("%d looks at a job of 23 s", n)
		}
	})
}

// TestAnotherManager: a manager that finds the job in the annotation also waits for its first seconds.
func TestAnotherManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newJobBench(t, time.Minute)
		time.Sleep(2 * time.Second)
		_, _, o := b.look()
		if o.Kind != outcome.Retry || o.RequeueAfter != 3*time.Second || len(b.polls()) != 0 {
			t.Errorf("after 2 s: %+v, %d looks", o, len(b.polls()))
		}
		time.Sleep(o.RequeueAfter)
		_, _, o = b.look()
		if o.Kind != outcome.Retry || o.RequeueAfter < pollAfterError || len(b.polls()) != 1 {
			t.Errorf("after 5 s: %+v, %d looks", o, len(b.polls()))
		}
	})
}

func TestHowAJobEnds(t *testing.T) {
	create := func(f emulator.Fault) emulator.Fault { f.Path = "/vpcs"; return f }
	tests := map[string]struct {
		fault        emulator.Fault
		failed, gone bool
	}{
		"succeeded":              {create(emulator.Fault{JobDelay: time.Second}), false, false},
		"failed":                 {create(emulator.Fault{Job: emulator.JobFails, JobCode: "QUOTA_EXCEEDED"}), true, false},
		"unknown to the portal":  {create(emulator.Fault{Job: emulator.JobForgotten}), false, true},
		"after a cut connection": {emulator.Fault{Path: "/jobs/{job_id}", Cut: true, Count: 1}, false, false},
		"after a lost token":     {emulator.Fault{Path: "/jobs/{job_id}", RevokeToken: true, Count: 1}, false, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newJobBench(t, 7*time.Second, test.fault)
				job, gone, o := b.follow(10 * time.Minute)
				if want := !test.gone; len(b.ended) == 1 != want || want && b.ended[0] != test.failed {
					t.Errorf("observed %v", b.ended)
				}
				if gone != test.gone || job.Failed() != test.failed {
					t.Errorf("gone %v, job %+v, %+v", gone, job, o)
				}
				if test.failed && !cloud.IsQuota(job.Error) {
					t.Errorf("the job's error is %v", job.Error)
				}
				if !gone {
					if _, found := b.backoff.Recall(pollKey, b.op.JobID); found {
						t.Error("a job that has ended is still remembered")
					}
				}
			})
		})
	}
}

// TestTroubleIsNotPolledFast: a portal that does not answer, or refuses to, is asked at most twice a minute, even if events come
// more often. The outcome stays the same in between.
func TestTroubleIsNotPolledFast(t *testing.T) {
	for _, status := range []int{400, 403, 409, 500, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newJobBench(t, time.Hour, emulator.Fault{Path: "/jobs/{job_id}", Status: status})
				for range 600 {
					_, gone, o := b.look()
					if o.IsDone() || gone {
						t.Fatalf("gone %v, %+v", gone, o)
					}
					if told := o.Kind != outcome.Retry; told != (len(b.polls()) > 0) {
						t.Fatalf("after %d requests: %+v", len(b.polls()), o)
					}
					time.Sleep(time.Second)
				}
				if n := len(b.polls()); n < 10 || n > 20 {
					t.Errorf("%d requests in 10 minutes", n)
				}
			})
		})
	}
}

// TestUnknownJob: if the portal does not know the job, every look reports that, but the portal is asked at most twice a minute.
// Another user is answered at once: the job may be theirs. Another client of the same user is not.
func TestUnknownJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newJobBench(t, time.Hour, emulator.Fault{ID: "unknown", Path: "/jobs/{job_id}", Status: 404})
		for range 600 {
			if _, gone, o := b.look(); gone != (len(b.polls()) > 0) || o.Kind != outcome.Retry || o.RequeueAfter <= 0 {
				t.Fatalf("after %d requests: gone %v, %+v", len(b.polls()), gone, o)
			}
			time.Sleep(time.Second)
		}
		n := len(b.polls())
		if n < 10 || n > 20 {
			t.Errorf("%d requests in 10 minutes", n)
		}
		b.portal.RemoveFault("unknown")
		if _, gone, _ := b.look(); !gone {
			t.Error("it is another user's only for the time of one look")
		}
		b.client = b.newClient("a@portal.example")
		if _, gone, _ := b.look(); !gone || len(b.polls()) != n {
			t.Errorf("the same user was answered again: gone %v, %d requests", gone, len(b.polls())-n)
		}
		b.client = b.newClient("b@portal.example")
		if _, gone, o := b.look(); gone || o.Kind != outcome.Retry || len(b.polls()) != n+1 {
			t.Errorf("another user: gone %v, %+v, %d requests", gone, o, len(b.polls())-n)
		}
	})
}

// TestRateLimitedLook: a retry time of one second does not make the provider ask for a job more often than every 5 seconds.
func TestRateLimitedLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newJobBench(t, time.Hour, emulator.Fault{Path: "/jobs/{job_id}", Status: 429, RetryAfter: time.Second, Count: 1})
		time.Sleep(pollAfterError)
		_, _, o := b.look()
		if o.Kind != outcome.Retry || o.RequeueAfter < pollAfterError || len(b.polls()) != 1 {
			t.Errorf("%+v after %d requests", o, len(b.polls()))
		}
	})
}

// TestStuck: a job that is still running after 30 minutes is reported as stuck, and polled slowly until it ends.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newJobBench(t, 2*time.Second, emulator.Fault{Path: "/vpcs", Job: emulator.JobStuck})
		for time.Since(b.op.Time.Time) < stuckAfter {
			if _, _, o := b.look(); o.Kind != outcome.Retry {
				t.Fatalf("after %s: %+v", time.Since(b.op.Time.Time), o)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		_, _, o := b.look()
		if o.Kind != outcome.Stalled || o.Reason != infrav1.JobStuckReason || o.RequeueAfter != stuckPoll {
			t.Fatalf("after 30 minutes: %+v", o)
		}
		before := len(b.polls())
		for range 16 * 60 {
			b.look()
			time.Sleep(time.Second)
		}
		if n := len(b.polls()) - before; n != 3 {
			t.Errorf("%d looks at a stuck job in 16 minutes", n)
		}
		b.portal.ClearFaults()
		if job, _, o := b.follow(10 * time.Minute); !o.IsDone() || job.Failed() {
			t.Errorf("%+v %+v", job, o)
		}
	})
}

// TestWaitingForTheRateLimit: without a token, nothing is sent and nothing is reported.
func TestWaitingForTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newJobBench(t, time.Hour)
		time.Sleep(time.Minute)
		for range 200 { // others use the account up
			reservation, err := b.client.Reserve("default/other", ratelimit.Read)
			if err != nil {
				break
			}
			defer reservation.Cancel()
		}
		_, gone, o := b.look()
		if gone || o.Kind != outcome.Retry || o.RequeueAfter <= 0 || len(b.polls()) != 0 {
			t.Errorf("gone %v, %+v, %d requests", gone, o, len(b.polls()))
		}
	})
}
