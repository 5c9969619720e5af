// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// remembered is how many moments the history keeps. A page that is opened gets all of them.
const remembered = 4000

// Moment is something that the timeline of a cluster shows.
type Moment struct {
	Time    time.Time  `json:"time"`
	Cluster string     `json:"cluster,omitempty"` // the portal's id. Empty: of all clusters
	Kind    MomentKind `json:"kind"`
	ID      string     `json:"id,omitempty"`   // of a job or fault, which begins and ends
	Text    string     `json:"text,omitempty"` // for a person who points at it
	Workers *workers   `json:"workers,omitempty"`
}

// MomentKind is the kind of a Moment.
type MomentKind string

// The kinds of moments.
const (
	workersChanged  MomentKind = "workers"
	RequestMade     MomentKind = "request" // that changes something
	JobBegan        MomentKind = "job"
	JobEnded        MomentKind = "job-end"
	DrainBegan      MomentKind = "drain"
	MachineReplaced MomentKind = "replaced"
	Warned          MomentKind = "warning"
	faultBegan      MomentKind = "fault"
	faultEnded      MomentKind = "fault-end"
)

// tally counts what the portal was asked since it started.
type tally struct {
	Creates  int `json:"creates"`
	Scales   int `json:"scales"`
	Upgrades int `json:"upgrades"`
	Deletes  int `json:"deletes"`
	Others   int `json:"others"` // other requests that change something, such as the creation of a network
	Reads    int `json:"reads"`
	Refused  int `json:"refused"` // of all of these, with those that got no answer
	PodsLost int `json:"podsLost"`
}

// history collects the moments from successive readings of the state, the log and the jobs.
type history struct {
	tally     tally
	moments   []Moment
	forgotten int // moments that are no longer kept
	logged    int // entries of the log that were read
	before    state
	told      map[string]bool   // jobs that are among the moments, by kind of moment and id; without a portal, moments that Kubernetes knows
	holders   map[string]string // the Machine that claimed a node last, by node
}

// add adds what has happened since the reading before.
func (h *history) add(now state, entries []emulator.LogEntry, jobs []emulator.Job, at time.Time) {
	for _, e := range entries {
		h.tally.count(e)
		if cluster := askedOf(e); cluster != "" {
			h.moments = append(h.moments, Moment{Time: e.Time, Cluster: cluster, Kind: RequestMade, Text: e.String()})
		}
	}
	for _, j := range jobs {
		h.once(Moment{Time: j.Accepted, Cluster: j.ClusterID, Kind: JobBegan, ID: j.ID, Text: string(j.Kind)})
		if !j.Ended.IsZero() {
			h.once(Moment{Time: j.Ended, Cluster: j.ClusterID, Kind: JobEnded, ID: j.ID, Text: string(j.Status)})
		}
	}
	h.observe(append(differences(h.before, now), h.replacements(now)...), now, at)
}

// observe adds what differs between two readings.
func (h *history) observe(differences []Moment, now state, at time.Time) {
	for _, m := range differences {
		m.Time = at
		h.moments = append(h.moments, m)
	}
	h.before = now
	if surplus := len(h.moments) - remembered; surplus > 0 {
		h.moments, h.forgotten = h.moments[surplus:], h.forgotten+surplus
	}
}

// once adds a moment of a job unless it was added before.
func (h *history) once(m Moment) {
	key := string(m.Kind) + m.ID
	if h.told == nil {
		h.told = map[string]bool{}
	}
	if !h.told[key] && m.Cluster != "" {
		h.told[key] = true
		h.moments = append(h.moments, m)
	}
}

// from returns the moments after the first n, as far as they are kept, and how many there were in all.
func (h *history) from(n int) ([]Moment, int) {
	return h.moments[min(max(n-h.forgotten, 0), len(h.moments)):], h.forgotten + len(h.moments)
}

func (t *tally) count(e emulator.LogEntry) {
	if e.Removal != nil {
		t.PodsLost += len(e.Removal.Pods)
	}
	if !e.IsRequest() {
		return
	}
	if e.Status == 0 || e.Status >= http.StatusBadRequest {
		t.Refused++
	}
	switch {
	case e.Method == http.MethodGet:
		t.Reads++
	case !e.IsChange(): // a login
	case e.Method == http.MethodPost && e.Route == "/kubernetes-clusters":
		t.Creates++
	case strings.HasSuffix(e.Route, "/scale"):
		t.Scales++
	case strings.HasSuffix(e.Route, "/upgrade"):
		t.Upgrades++
	case e.Method == http.MethodDelete && e.Route == "/kubernetes-clusters/{cluster_id}":
		t.Deletes++
	default:
		t.Others++
	}
}

// askedOf returns the id of the cluster that an entry of the log asked to create or change, or "".
func askedOf(e emulator.LogEntry) string {
	if e.Object == "cluster" && e.From == "" { // the path of its creation did not name it
		return e.ID
	}
	if !e.IsChange() {
		return ""
	}
	_, rest, _ := strings.Cut(e.Path, "/kubernetes-clusters/")
	id, _, _ := strings.Cut(rest, "/")
	return id
}

// differences returns what a timeline shows of a change of the state, without the time.
func differences(before, now state) []Moment {
	all := workersChanges(before, now)
	drained, drains := drains(before), drains(now)
	for _, node := range slices.Sorted(maps.Keys(drains)) {
		if drained[node] == "" {
			all = append(all, Moment{Cluster: drains[node], Kind: DrainBegan, Text: "drain of node " + node})
		}
	}
	return append(all, faultChanges(before, now)...)
}

// workersChanges returns the numbers of workers of each cluster in which one has changed.
func workersChanges(before, now state) (all []Moment) {
	were := map[string]workers{}
	for _, c := range before.Clusters {
		were[c.ID] = c.workers
	}
	for _, c := range now.Clusters {
		if was, known := were[c.ID]; !known || !was.equal(c.workers) {
			is := c.workers
			all = append(all, Moment{Cluster: c.ID, Kind: workersChanged, Workers: &is})
		}
	}
	return all
}

// drains returns the cluster of each node that is being drained, or is drained, by the node's name.
func drains(s state) map[string]string {
	out := map[string]string{}
	for _, c := range s.Clusters {
		for _, n := range c.Nodes {
			if n.State == NodeDraining || n.State == NodeDrained {
				out[n.Name] = c.ID
			}
		}
	}
	for _, m := range s.Machines {
		if m.Node != "" && (m.State == MachineDraining || m.State == MachineDrained) {
			out[m.Node] = m.ClusterID
		}
	}
	return out
}

// replacements returns the Machines that have come to claim a node which another one had claimed. That one may have given it back before.
func (h *history) replacements(now state) (all []Moment) {
	claims, holders := map[string]string{}, map[string]string{}
	for _, m := range h.before.Machines {
		claims[m.Name] = m.Node
	}
	for _, c := range now.Clusters {
		for _, n := range c.Nodes {
			holders[n.Name] = h.holders[n.Name]
		}
	}
	for _, m := range now.Machines {
		if m.Node == "" || claims[m.Name] == m.Node && holders[m.Node] != "" {
			continue
		}
		if holder := holders[m.Node]; holder != "" && holder != m.Name {
			all = append(all, Moment{
				Cluster: m.ClusterID, Kind: MachineReplaced, Text: fmt.Sprintf("Machine %s takes over node %s from %s", m.Name, m.Node, holder),
			})
		}
		holders[m.Node] = m.Name
	}
	h.holders = holders
	return all
}

// faultChanges returns the faults that have begun, and those that are removed or spent.
func faultChanges(before, now state) (all []Moment) {
	for _, f := range now.Faults {
		if !f.Spent && !strikes(before, f.Fault.ID) {
			all = append(all, Moment{Kind: faultBegan, ID: f.Fault.ID, Text: "fault " + f.Fault.ID})
		}
	}
	for _, f := range before.Faults {
		if !f.Spent && !strikes(now, f.Fault.ID) {
			all = append(all, Moment{Kind: faultEnded, ID: f.Fault.ID})
		}
	}
	return all
}

// strikes reports whether a fault is armed and not spent.
func strikes(s state, id string) bool {
	for _, f := range s.Faults {
		if f.Fault.ID == id {
			return !f.Spent
		}
	}
	return false
}
