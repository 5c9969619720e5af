// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// perfect is the journal of a demonstration without fault: five jobs of seven seconds, polled three times each.
func perfect() (journal []emulator.Entry, jobs []emulator.Job) {
	accepted := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, mutation := range mutations {
		for range mutation.want {
			id := "job-" + string(rune('a'+len(jobs)))
			journal = append(journal, emulator.Entry{Method: mutation.method, Route: mutation.route, Status: http.StatusAccepted})
			jobs = append(jobs, emulator.Job{ID: id, Accepted: accepted, Ended: accepted.Add(7 * time.Second)})
			for range 3 {
				journal = append(journal, poll(id))
			}
		}
	}
	return journal, jobs
}

func TestInspect(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func([]emulator.Entry) []emulator.Entry
		want  string
	}{
		"nothing wrong": {func(j []emulator.Entry) []emulator.Entry { return j }, ""},
		"a second create": {func(j []emulator.Entry) []emulator.Entry {
			return append(j, emulator.Entry{Method: http.MethodPost, Route: "/kubernetes-clusters", Status: http.StatusAccepted})
		}, "POST /kubernetes-clusters: 2 requests instead of 1"},
		"no delete":     {func(j []emulator.Entry) []emulator.Entry { return j[:len(j)-4] }, "DELETE /kubernetes-clusters/{cluster_id}: 0 requests"},
		"one poll more": {func(j []emulator.Entry) []emulator.Entry { return append(j, poll("job-a")) }, "4 polls in 7.0 s, at most 3 expected"},
		"rate limited": {func(j []emulator.Entry) []emulator.Entry {
			return append(j, emulator.Entry{Method: http.MethodGet, Route: "/vpcs", Path: "/vpcs", Status: http.StatusTooManyRequests})
		}, "refused: GET /vpcs"},
		"not of the specification": {func(j []emulator.Entry) []emulator.Entry {
			return append(j, emulator.Entry{Method: http.MethodGet, Path: "/clusters", Status: http.StatusNotFound, Violation: "unknown endpoint"})
		}, "refused: GET /clusters"},
	} {
		t.Run(name, func(t *testing.T) {
			journal, jobs := perfect()
			err := inspect(test.spoil(journal), jobs)
			if test.want == "" && err != nil {
				t.Errorf("complains: %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("says %v, want %q alone", err, test.want)
			}
		})
	}
}

func poll(job string) emulator.Entry {
	return emulator.Entry{Method: http.MethodGet, Route: "/jobs/{job_id}", Path: "/jobs/" + job, Status: http.StatusOK}
}
