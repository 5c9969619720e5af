// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// On a quiet account a job is looked at every 5 s and no more: ⌈seconds/5⌉ times.
func TestPollsOfAQuietAccount(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 5 * time.Second, 12 * time.Second, 4 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			server := &jobServer{takes: takes}
			c := newClient(t, testConfig(newPortalLimit(0, server)))
			followJob(t, c, "create")
			if most := int(math.Ceil(takes.Seconds() / 5)); server.polls > most {
				t.Errorf("a job of %v was looked at %d times, want at most %d", takes, server.polls, most)
			}
		})
	}
}

// followJob starts a job and follows it to its end as the policy says; it gives the time that it took in our eyes.
func followJob(t *testing.T, c *Client, kind string) time.Duration {
	var job Job
	untilDone(t, func() (err error) { job, err = c.ScaleCluster(t.Context(), kind, 1); return err })
	id, started := job.ID, time.Now()
	g := c.Governor()
	g.JobStarted(kind, id)
	last := started
	for !job.Done() {
		at := g.PollAfter(kind, started, time.Now())
		if at.Sub(last) < pollInterval {
			t.Errorf("looked again after %v", at.Sub(last))
		}
		time.Sleep(time.Until(at))
		last = time.Now()
		untilDone(t, func() (err error) { job, err = c.Job(t.Context(), id); return err })
	}
	g.JobFinished(kind, id, time.Since(started))
	return time.Since(started)
}

// With 400 jobs in flight all the time, polling fits in the account, the ends are noticed soon, and jobs are mostly
// first looked at when they are done.
func TestPollsOfABusyAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &jobServer{takes: 5 * time.Minute}
		portal := newPortalLimit(10*time.Millisecond, server)
		c := newClient(t, testConfig(portal))
		followJob(t, c, "scale") // to know how long they take
		var late atomic.Int64
		var group sync.WaitGroup
		for i := range 400 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * 750 * time.Millisecond)
				for range 6 {
					late.Add(int64(followJob(t, c, "scale") - server.takes))
				}
			})
		}
		group.Wait()
		if portal.refused > 0 {
			t.Errorf("%d requests were rate limited", portal.refused)
		}
		perJob := float64(server.polls) / float64(len(server.jobs))
		if perJob > 1.5 {
			t.Errorf("%.1f polls for each of %d jobs", perJob, len(server.jobs))
		}
		mean := time.Duration(late.Load() / int64(len(server.jobs)))
		if mean > 15*time.Second {
			t.Errorf("the end of a job is noticed %v late on average", mean)
		}
		t.Logf("%.2f polls per job, noticed %v late", perJob, mean)
	})
}

// On an account so busy that jobs are only looked at when they are likely done, it is noticed that they have become
// faster.
func TestPollsNoticeFasterJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &jobServer{takes: 4 * time.Minute}
		c := newClient(t, testConfig(newPortalLimit(10*time.Millisecond, server)))
		var group sync.WaitGroup
		var last atomic.Int64
		for i := range 100 {
			group.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				for round := range 40 {
					if round == 10 {
						server.mu.Lock()
						server.takes = time.Minute
						server.mu.Unlock()
					}
					took := followJob(t, c, "scale")
					last.Store(int64(took))
				}
			})
		}
		group.Wait()
		if took := time.Duration(last.Load()); took > 90*time.Second {
			t.Errorf("jobs of a minute are noticed after %v", took)
		}
	})
}

// Jobs that became slower, or faster, are learned anew.
func TestLearnedDurationFollows(t *testing.T) {
	book := newJobBook()
	for range 50 {
		book.learn("create", 55*time.Second, 60*time.Second)
	}
	for range 50 {
		book.learn("create", 290*time.Second, 300*time.Second)
	}
	if got := book.likely["create"]; got < 250*time.Second || got > 320*time.Second {
		t.Errorf("jobs of 300 s are thought to take %v", got)
	}
	for range 20 {
		book.learn("create", 0, 30*time.Second)
	}
	if got := book.likely["create"]; got > 40*time.Second {
		t.Errorf("jobs of 30 s are thought to take %v", got)
	}
	if got := book.leave("never seen", 0); got != 0 {
		t.Errorf("an unknown kind is left alone for %v", got)
	}
}

// Jobs whose end nobody reports do not slow polling for ever.
func TestForgottenJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(GovernorOptions{})
		for i := range 1000 {
			g.JobStarted("create", strconv.Itoa(i))
		}
		if wait := time.Until(g.PollAfter("create", time.Now(), time.Now())); wait < time.Minute {
			t.Errorf("with 1000 jobs one is looked at again after %v", wait)
		}
		time.Sleep(jobForgotten + time.Second)
		if wait := time.Until(g.PollAfter("create", time.Now(), time.Now())); wait != pollInterval {
			t.Errorf("with 1000 forgotten jobs one is looked at again after %v", wait)
		}
	})
}
