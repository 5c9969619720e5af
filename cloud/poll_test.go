// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// pollInterval is the least time between two polls of a job.
const pollInterval = 5 * time.Second

// TestPollsOfAQuietAccount checks that on a quiet account a job is looked at only every 5 s: ⌈seconds/5⌉ times.
func TestPollsOfAQuietAccount(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 5 * time.Second, 12 * time.Second, 4 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			server := &jobServer{takes: takes}
			c := newClient(t, testConfig(newPortalLimit(0, server)))
			took := followJob(t, c, "create")
			if most := int(math.Ceil(takes.Seconds() / 5)); server.polls > most {
				t.Errorf("a job of %v was looked at %d times, want at most %d", takes, server.polls, most)
			}
			if took > takes+pollInterval {
				t.Errorf("the end of a job of %v was seen after %v", takes, took)
			}
		})
	}
}

// followJob starts a job, follows it to its end, and returns how long it took for the client.
func followJob(t *testing.T, c *Client, kind string) time.Duration {
	var j Job
	untilDone(t, func() (err error) { j, err = c.ScaleCluster(t.Context(), kind, 1); return err })
	id, started := j.ID, time.Now()
	last := started
	for !j.Done() {
		untilDone(t, func() error {
			reservation, err := c.ReservePoll(id, ratelimit.RunningJob{Kind: kind, ID: id, Started: started})
			if err != nil {
				return err
			}
			if since := time.Since(last); since < pollInterval {
				t.Errorf("looked again after %v", since)
			}
			last = time.Now()
			j, err = c.Job(WithReservation(t.Context(), reservation), id)
			return err
		})
	}
	return time.Since(started)
}
