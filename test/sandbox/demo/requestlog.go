// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// pollInterval is the interval at which the specification suggests to poll a job.
const pollInterval = 5 * time.Second

// mutations lists the requests that change something, with the number that the demonstration needs.
var mutations = []struct {
	method, route string
	want          int
}{
	{http.MethodPost, "/kubernetes-clusters", 1},
	{http.MethodPost, "/kubernetes-clusters/{cluster_id}/scale", 3},
	{http.MethodPost, "/kubernetes-clusters/{cluster_id}/upgrade", 1},
	{http.MethodDelete, "/kubernetes-clusters/{cluster_id}", 1},
}

// changes returns the cluster's changes in order, as the portal's request log records them. The scale-down removes one worker first, because
// the provider does not know the portal's order of removal.
func (d *demo) changes() []string {
	return []string{
		string(emulator.ClusterCreating),
		fmt.Sprintf("%s size %d → %d", emulator.ClusterScaling, workers, moreWorkers),
		fmt.Sprintf("%s size %d → %d", emulator.ClusterScaling, moreWorkers, moreWorkers-1),
		fmt.Sprintf("%s size %d → %d", emulator.ClusterScaling, moreWorkers-1, fewerWorkers),
		fmt.Sprintf("%s %s → %s", emulator.ClusterUpgrading, d.from, d.to),
		string(emulator.ClusterDeleting),
	}
}

// judge prints the portal's request log and its problems.
func (d *demo) judge() error {
	entries, jobs := d.Portal.RequestLog(), d.Portal.Jobs()
	say(d.out, "What the portal was asked")
	for _, entry := range entries {
		if entry.IsRequest() || entry.Object == "cluster" || entry.Object == "job" {
			indent(d.out, entry.Time.Format("15:04:05.0 ")+entry.String())
		}
	}
	say(d.out, "Requests against what they should be")
	problems := inspect(entries, jobs, d.changes())
	removed, lost, undrained := killed(entries)
	if d.Portal.VictimOrder() == emulator.VictimsNewest { // in another order, the first removal is a surprise
		problems = errors.Join(append(undrained, problems)...)
	}
	for _, mutation := range mutations {
		indent(d.out, fmt.Sprintf("%-6s %-42s %d of %d", mutation.method, mutation.route, count(entries, mutation.method, mutation.route), mutation.want))
	}
	for _, job := range jobs {
		indent(d.out, fmt.Sprintf("%-16s job took %4.1f s, polls: %d of %d at most", job.Kind, seconds(job), polls(entries, job), mostPolls(job)))
	}
	if problems == nil {
		indent(d.out, fmt.Sprintf("no request was refused, and none was too many. Scale-downs removed %s. Pods evicted: %d, lost: %d",
			counted(removed, "node"), d.evicted.count(), lost))
	}
	return problems
}

// inspect returns the problems of a request log in which the wanted changes should have happened.
func inspect(entries []emulator.LogEntry, jobs []emulator.Job, want []string) error {
	var problems []error
	if got := emulator.ClusterChanges(entries); !slices.Equal(got, want) {
		problems = append(problems, fmt.Errorf("the portal's clusters went through %q instead of %q", got, want))
	}
	for _, mutation := range mutations {
		if got := count(entries, mutation.method, mutation.route); got != mutation.want {
			problems = append(problems, fmt.Errorf("%s %s: %d requests instead of %d", mutation.method, mutation.route, got, mutation.want))
		}
	}
	for _, entry := range entries {
		if entry.Status == http.StatusTooManyRequests || entry.Violation != "" {
			problems = append(problems, fmt.Errorf("refused: %s", entry))
		}
	}
	for _, job := range jobs {
		if got, most := polls(entries, job), mostPolls(job); got > most {
			problems = append(problems, fmt.Errorf("%s: %d polls in %.1f s, at most %d expected", job.Kind, got, seconds(job), most))
		}
	}
	return errors.Join(problems...)
}

func count(entries []emulator.LogEntry, method, route string) (n int) {
	for _, entry := range entries {
		if entry.Method == method && entry.Route == route {
			n++
		}
	}
	return n
}

func polls(entries []emulator.LogEntry, job emulator.Job) (n int) {
	for _, entry := range entries {
		if entry.Method == http.MethodGet && entry.Route == "/jobs/{job_id}" && strings.HasSuffix(entry.Path, "/"+job.ID) {
			n++
		}
	}
	return n
}

// mostPolls returns the maximum number of polls of a job: one for each started interval, and one that finds the job ended.
func mostPolls(job emulator.Job) int {
	return int(math.Ceil(seconds(job)/pollInterval.Seconds())) + 1
}

func seconds(job emulator.Job) float64 {
	if job.Ended.IsZero() {
		return time.Since(job.Accepted).Seconds()
	}
	return job.Ended.Sub(job.Accepted).Seconds()
}
