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
func perfect() (entries []emulator.LogEntry, jobs []emulator.Job) {
	accepted := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, change := range []string{"Creating", "Scaling size 1 → 2", "Upgrading v1 → v2", "Running", "Deleting"} {
		state, detail, _ := strings.Cut(change, " ")
		entries = append(entries, emulator.LogEntry{Object: "cluster", To: state, Detail: detail})
	}
	for _, mutation := range mutations {
		for range mutation.want {
			id := "job-" + string(rune('a'+len(jobs)))
			entries = append(entries, emulator.LogEntry{Method: mutation.method, Route: mutation.route, Status: http.StatusAccepted})
			jobs = append(jobs, emulator.Job{ID: id, Accepted: accepted, Ended: accepted.Add(7 * time.Second)})
			for range 3 {
				entries = append(entries, poll(id))
			}
		}
	}
	return entries, jobs
}

func TestInspect(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func([]emulator.LogEntry) []emulator.LogEntry
		want  string
	}{
		"nothing wrong": {func(j []emulator.LogEntry) []emulator.LogEntry { return j }, ""},
		"a second create": {func(j []emulator.LogEntry) []emulator.LogEntry {
			return append(j, emulator.LogEntry{Method: http.MethodPost, Route: "/kubernetes-clusters", Status: http.StatusAccepted})
		}, "POST /kubernetes-clusters: 2 requests instead of 1"},
		"no delete":     {func(j []emulator.LogEntry) []emulator.LogEntry { return j[:len(j)-4] }, "DELETE /kubernetes-clusters/{cluster_id}: 0 requests"},
		"one poll more": {func(j []emulator.LogEntry) []emulator.LogEntry { return append(j, poll("job-a")) }, "4 polls in 7.0 s, at most 3 expected"},
		"rate limited": {func(j []emulator.LogEntry) []emulator.LogEntry {
			return append(j, emulator.LogEntry{Method: http.MethodGet, Route: "/vpcs", Path: "/vpcs", Status: http.StatusTooManyRequests})
		}, "refused: GET /vpcs"},
		"not of the specification": {func(j []emulator.LogEntry) []emulator.LogEntry {
			return append(j, emulator.LogEntry{Method: http.MethodGet, Path: "/clusters", Status: http.StatusNotFound, Violation: "unknown endpoint"})
		}, "refused: GET /clusters"},
		"another size on the way": {func(j []emulator.LogEntry) []emulator.LogEntry {
			j[1].Detail = "size 1 → 3"
			return j
		}, "went through"},
		"a cluster that failed": {func(j []emulator.LogEntry) []emulator.LogEntry {
			return append(j, emulator.LogEntry{Object: "cluster", To: string(emulator.ClusterFailed)})
		}, "went through"},
	} {
		t.Run(name, func(t *testing.T) {
			entries, jobs := perfect()
			err := inspect(test.spoil(entries), jobs, []string{"Creating", "Scaling size 1 → 2", "Upgrading v1 → v2", "Deleting"})
			if test.want == "" && err != nil {
				t.Errorf("error %v, want none", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("says %v, want %q alone", err, test.want)
			}
		})
	}
}

// TestKilled checks that a node is reported which a scale-down removed with its Pods, or while it took Pods.
func TestKilled(t *testing.T) {
	for name, test := range map[string]struct {
		removal *emulator.Removal
		want    int
	}{
		"drained":              {&emulator.Removal{By: emulator.JobScaleCluster, Cordoned: true}, 0},
		"with a Pod":           {&emulator.Removal{By: emulator.JobScaleCluster, Cordoned: true, Pods: []string{"default/shop"}}, 1},
		"schedulable":          {&emulator.Removal{By: emulator.JobScaleCluster}, 1},
		"not by a scale-down":  {&emulator.Removal{By: emulator.JobUpgradeCluster, Pods: []string{"default/shop"}}, 0},
		"nothing that removes": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			removed, lost, problems := killed([]emulator.LogEntry{{Object: "node", ID: "w1", Removal: test.removal}})
			if len(problems) != test.want || (lost > 0) != (name == "with a Pod") || (removed > 0) != (test.removal != nil && test.removal.By == emulator.JobScaleCluster) {
				t.Errorf("%v, want %d; %d removed, %d Pods lost", problems, test.want, removed, lost)
			}
		})
	}
}

func TestUndisturbed(t *testing.T) {
	node := infrav1.BoundNode{Name: "n1", UID: "1"}
	before := holders{node: "m1"}
	for name, test := range map[string]struct {
		after   holders
		entries []emulator.LogEntry
		want    string
	}{
		"another Machine on the Node":      {holders{node: "m2"}, []emulator.LogEntry{{Object: "job", To: "succeeded"}}, ""},
		"another Node under the name":      {holders{{Name: "n1", UID: "2"}: "m1"}, nil, "Node n1, which Machine m1 held, is gone"},
		"no Node":                          {holders{}, nil, "Node n1, which Machine m1 held, is gone"},
		"a question to the portal":         {before, []emulator.LogEntry{poll("job-a")}, "the portal was asked although nothing was to change there: GET /jobs/job-a"},
		"the kubeconfig of the upgrade":    {before, []emulator.LogEntry{{Method: http.MethodGet, Route: kubeconfigRoute, Path: "/x/config", Status: http.StatusOK}}, ""},
		"a scale request that was refused": {before, []emulator.LogEntry{{Method: http.MethodPost, Path: "/x/scale", Status: http.StatusConflict}}, "POST /x/scale"},
	} {
		t.Run(name, func(t *testing.T) {
			err := undisturbed(before, test.after, test.entries)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("says %v, want %q", err, test.want)
			}
		})
	}
}

func poll(job string) emulator.LogEntry {
	return emulator.LogEntry{Method: http.MethodGet, Route: "/jobs/{job_id}", Path: "/jobs/" + job, Status: http.StatusOK}
}
