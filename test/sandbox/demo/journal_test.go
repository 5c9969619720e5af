// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"net/http"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// perfect returns a request log without problems: five jobs of seven seconds, each polled three times.
func perfect() (journal []emulator.Entry, jobs []emulator.Job) {
	accepted := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, change := range []string{"Creating", "Scaling size 1 → 2", "Upgrading v1 → v2", "Running", "Deleting"} {
		state, detail, _ := strings.Cut(change, " ")
		journal = append(journal, emulator.Entry{Object: "cluster", To: state, Detail: detail})
	}
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
		"another size on the way": {func(j []emulator.Entry) []emulator.Entry {
			j[1].Detail = "size 1 → 3"
			return j
		}, "went through"},
		"a cluster that failed": {func(j []emulator.Entry) []emulator.Entry {
			return append(j, emulator.Entry{Object: "cluster", To: string(emulator.ClusterFailed)})
		}, "went through"},
	} {
		t.Run(name, func(t *testing.T) {
			journal, jobs := perfect()
			err := inspect(test.spoil(journal), jobs, []string{"Creating", "Scaling size 1 → 2", "Upgrading v1 → v2", "Deleting"})
			if test.want == "" && err != nil {
				t.Errorf("error %v, want none", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("says %v, want %q alone", err, test.want)
			}
		})
	}
}

func TestUndisturbed(t *testing.T) {
	node := infrav1.BoundNode{Name: "n1", UID: "1"}
	before := holders{node: "m1"}
	for name, test := range map[string]struct {
		after   holders
		journal []emulator.Entry
		want    string
	}{
		"another Machine on the Node":      {holders{node: "m2"}, []emulator.Entry{{Object: "job", To: "succeeded"}}, ""},
		"another Node under the name":      {holders{{Name: "n1", UID: "2"}: "m1"}, nil, "Node n1, which Machine m1 held, is gone"},
		"no Node":                          {holders{}, nil, "Node n1, which Machine m1 held, is gone"},
		"a question to the portal":         {before, []emulator.Entry{poll("job-a")}, "the portal was asked although nothing was to change there: GET /jobs/job-a"},
		"the kubeconfig of the upgrade":    {before, []emulator.Entry{{Method: http.MethodGet, Route: kubeconfigRoute, Path: "/x/config", Status: http.StatusOK}}, ""},
		"a scale request that was refused": {before, []emulator.Entry{{Method: http.MethodPost, Path: "/x/scale", Status: http.StatusConflict}}, "POST /x/scale"},
	} {
		t.Run(name, func(t *testing.T) {
			err := undisturbed(before, test.after, test.journal)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("says %v, want %q", err, test.want)
			}
		})
	}
}

func poll(job string) emulator.Entry {
	return emulator.Entry{Method: http.MethodGet, Route: "/jobs/{job_id}", Path: "/jobs/" + job, Status: http.StatusOK}
}
