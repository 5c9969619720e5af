// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"slices"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// fleetMinutes is how much of the past a timeline of a fleet shows: an API server keeps events for an hour.
const fleetMinutes = 60

// fleet returns the portal's clusters as Kubernetes knows them.
func fleet(known Kubernetes) []cluster {
	nodes := map[string][]node{} // by cluster
	for _, n := range known.Nodes {
		nodes[n.ClusterID] = append(nodes[n.ClusterID], node{Name: n.Name, Version: n.Version, State: n.State})
	}
	out := []cluster{}
	for i := range known.Clusters {
		c := &known.Clusters[i]
		if c.Known == nil {
			continue
		}
		out = append(out, cluster{
			ID: c.ClusterID, Name: c.Name, State: emulator.ClusterState(c.Known.State), Version: c.Known.Version,
			workers: workers{Wanted: &c.Wanted, Size: c.Known.Size, Ready: c.Known.Ready}, Nodes: append([]node{}, nodes[c.ClusterID]...),
		})
	}
	return out
}

// operations returns the newest jobs of which Kubernetes knows a moment, newest first.
func operations(known Kubernetes, now time.Time) []job {
	names := map[string]string{}
	for _, c := range known.Clusters {
		names[c.ClusterID] = c.Name
	}
	var out []job
	began := map[string]time.Time{} // by job
	for _, m := range known.Moments {
		switch m.Kind {
		case JobBegan:
			began[m.ID] = m.Time
			out = append(out, job{
				ID: m.ID, Kind: emulator.JobKind(m.Text), Cluster: names[m.Cluster], Status: emulator.JobRunning, Seconds: int(now.Sub(m.Time).Seconds()),
			})
		case JobEnded:
			if i := slices.IndexFunc(out, func(j job) bool { return j.ID == m.ID }); i >= 0 {
				out[i].Status, out[i].Seconds = emulator.JobStatus(m.Text), int(m.Time.Sub(began[m.ID]).Seconds())
			}
		}
	}
	slices.Reverse(out)
	return append([]job{}, out[:min(len(out), jobsShown)]...)
}

// addFleet adds what has happened since the reading before, without a portal: what Kubernetes has told since, and the numbers of workers.
func (h *history) addFleet(now state, moments []Moment, at time.Time) {
	told := map[string]bool{}
	for _, m := range moments {
		key := fmt.Sprint(m.Cluster, m.Kind, m.ID, m.Text, m.Time.UnixMicro())
		if !h.told[key] {
			h.moments = append(h.moments, m)
		}
		told[key] = true
	}
	h.told = told // what Kubernetes has forgotten does not come again
	h.observe(workersChanges(h.before, now), now, at)
}
