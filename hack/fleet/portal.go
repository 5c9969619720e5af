// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/internal/fleet"
)

// requests returns the requests that an account has sent to the portal since the given time.
func (b *bench) requests(account string, since time.Time) []emulator.LogEntry {
	return slices.DeleteFunc(b.Portal.RequestLog(), func(e emulator.LogEntry) bool {
		return !e.IsRequest() || e.Account != account || e.Time.Before(since)
	})
}

// byEndpoint counts the requests by endpoint.
func byEndpoint(requests []emulator.LogEntry) map[string]int {
	counts := map[string]int{}
	for _, e := range requests {
		counts[e.Method+" "+e.Route]++
	}
	return counts
}

func limited(requests []emulator.LogEntry) (count int) {
	for _, e := range requests {
		if e.Status == http.StatusTooManyRequests {
			count++
		}
	}
	return count
}

// accepted counts the requests to the route that started a job.
func accepted(requests []emulator.LogEntry, route string) (count int) {
	for _, e := range requests {
		if e.Method == http.MethodPost && e.Route == route && e.Status == http.StatusAccepted {
			count++
		}
	}
	return count
}

const createRoute = "/kubernetes-clusters"

// clusterOf returns the id of the cluster that a path names.
func clusterOf(path string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(path, createRoute+"/"), "/")
	return id
}

// jobs returns the account's jobs of a kind since the given time.
func (b *bench) jobs(kind emulator.JobKind, account string, since time.Time) []emulator.Job {
	return slices.DeleteFunc(b.Portal.Jobs(), func(j emulator.Job) bool {
		return j.Kind != kind || j.Account != account || j.Accepted.Before(since)
	})
}

// needs returns the earliest times at which the requests of these scales are wanted: the scale, a look at its end, and the kubeconfig after
// it.
func needs(scales []emulator.Job) (all []time.Time) {
	for _, j := range scales {
		all = append(all, j.Accepted, j.Due, j.Due)
	}
	return all
}

// looks returns, for each job, when the first look at it happened after the time that "after" returns. Jobs without such a look are
// missing.
func looks(requests []emulator.LogEntry, jobs []emulator.Job, after func(emulator.Job) time.Time) (waited []time.Duration) {
	first := map[string]time.Duration{}
	from := map[string]time.Time{}
	for _, j := range jobs {
		from[j.ID] = after(j)
	}
	for _, e := range requests {
		id, isJob := strings.CutPrefix(e.Path, "/jobs/")
		at, is := from[id]
		if _, seen := first[id]; isJob && is && !seen && e.Status == http.StatusOK && !e.Time.Before(at) {
			first[id] = e.Time.Sub(at)
			waited = append(waited, e.Time.Sub(at))
		}
	}
	return waited
}

func endOf(j emulator.Job) time.Time { return j.Ended }

// bound returns the earliest times, since the start, at which the clusters could be ready beside other requests on the account (package
// fleet).
func bound(start time.Time, jobs []emulator.Job, others ...time.Time) (ready []time.Duration) {
	var takes []time.Duration
	for _, j := range jobs {
		takes = append(takes, j.Due.Sub(j.Accepted))
	}
	for _, at := range fleet.Bound(start, 0, takes, others...) {
		ready = append(ready, at.Sub(start))
	}
	return ready
}

// quantile returns 0 if there are no values.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1)+0.5)]
}

// since returns the times as durations since the start.
func since[K comparable](start time.Time, times map[K]time.Time) (all []time.Duration) {
	for _, at := range times {
		all = append(all, at.Sub(start))
	}
	return all
}
