// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"slices"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Kubernetes holds the state of the management cluster and the workload clusters.
type Kubernetes struct {
	Clusters []Cluster
	Machines []Machine
	Nodes    []Node
	Moments  []Moment // shown if the page has no portal, in the order of their times
}

// Cluster is one Cluster of Cluster API, with the objects that belong to it.
type Cluster struct {
	Name       string      `json:"name"`
	ClusterID  string      `json:"clusterId,omitempty"` // the portal's id of the cluster. Empty until it is known
	Wanted     int         `json:"wanted"`              // replicas of all MachineDeployments and MachinePools
	Conditions []Condition `json:"conditions"`
	Actions    []Action    `json:"actions"`
	Known      *Known      `json:"-"` // shown if the page has no portal
}

// Known is what Kubernetes knows about a portal cluster.
type Known struct {
	State   string // Running, or what it waits for
	Version string
	Size    int // workers that the portal accepted last
	Ready   int // workers with a Ready Node
}

// Condition is a condition of one of a Cluster's objects.
type Condition struct {
	Object  string `json:"object"` // kind and name
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Problem bool   `json:"problem,omitempty"` // it does not only wait for an operation that is under way
	Link    string `json:"link,omitempty"`    // to an explanation of the reason
}

// Action is something that a person can do to a Cluster with one command.
type Action struct {
	Label   string `json:"label"`
	Command string `json:"command"` // for a shell
}

// Step is a step of a demonstration.
type Step struct {
	Number int    `json:"number"`
	Of     int    `json:"of"`
	Name   string `json:"name"`
}

// Machine is one Machine of Cluster API.
type Machine struct {
	Name      string       `json:"name"`
	Cluster   string       `json:"cluster"`             // name of the Cluster
	ClusterID string       `json:"clusterId,omitempty"` // the portal's id of the cluster. Empty until it is known
	Node      string       `json:"node,omitempty"`      // that it claims
	State     MachineState `json:"state"`
	From      string       `json:"from,omitempty"` // the Machine that still claims the same node, which this one takes over
	Version   string       `json:"version,omitempty"`
}

// MachineState is the phase of a Machine.
type MachineState string

// The states of a Machine.
const (
	MachineWaiting  MachineState = "waiting"  // for a node
	MachineJoining  MachineState = "joining"  // it claims a node, and core has not found the Node yet
	MachineRunning  MachineState = "running"  // it has its Node
	MachineTakeover MachineState = "takeover" // it claims a node that another Machine still claims
	MachineHeld     MachineState = "held"     // it is being deleted, and the provider holds it
	MachineDraining MachineState = "draining" // core drains its Node
	MachineDrained  MachineState = "drained"  // its Node is drained
	MachineReleased MachineState = "released" // it gave its node back
)

// Node is the Node object of a node.
type Node struct {
	ClusterID string
	Name      string
	Version   string    // of the kubelet. Only a page without a portal shows it
	State     NodeState // NodeCordoned, NodeDraining, NodeDrained or empty. A page without a portal shows NodeUp and NodeJoining as well
	Ready     bool
}

// NodeState is the phase of a node.
type NodeState string

// The states of a node.
const (
	NodeUp       NodeState = "up"
	NodeJoining  NodeState = "joining" // the portal makes its machine
	NodeLeaving  NodeState = "leaving" // the portal removes its machine
	NodeGone     NodeState = "gone"    // the portal removed the machine, and its Node object is still there
	NodeCordoned NodeState = "cordoned"
	NodeDraining NodeState = "draining"
	NodeDrained  NodeState = "drained" // it waits for the portal to remove it
)

// state holds the contents of the page without the log and the history.
type state struct {
	Title       string                `json:"title"`
	Step        *Step                 `json:"step,omitempty"`
	Fleet       bool                  `json:"fleet,omitempty"`   // there is no portal, so what only a portal knows is not shown
	Minutes     int                   `json:"minutes,omitempty"` // that a timeline shows. The default is 5
	Tally       tally                 `json:"tally"`
	ReadOnly    bool                  `json:"readOnly"`
	Kubernetes  bool                  `json:"kubernetes"`        // Machines are shown
	Problem     string                `json:"problem,omitempty"` // why the Machines cannot be read
	VictimOrder emulator.VictimOrder  `json:"victimOrder"`
	Clusters    []cluster             `json:"clusters"`
	Objects     []Cluster             `json:"objects"`
	Machines    []Machine             `json:"machines"`
	Jobs        []job                 `json:"jobs"` // newest first
	Budgets     []emulator.Budget     `json:"budgets"`
	Faults      []emulator.FaultState `json:"faults"`
}

// cluster is one of the portal's.
type cluster struct {
	ID      string                `json:"id"`
	Name    string                `json:"name"`
	State   emulator.ClusterState `json:"state"` // or Known.State
	Version string                `json:"version"`
	workers
	Nodes []node `json:"nodes"` // oldest first
}

// workers counts the workers of a cluster.
type workers struct {
	Wanted *int `json:"wanted,omitempty"` // in Kubernetes. Nil if Kubernetes is not shown, or does not know the cluster
	Size   int  `json:"size"`             // at the portal
	Ready  int  `json:"ready"`            // with a Ready Node, or that are up if there is no Kubernetes
}

func (w workers) equal(other workers) bool {
	return w.Size == other.Size && w.Ready == other.Ready && (w.Wanted == nil) == (other.Wanted == nil) &&
		(w.Wanted == nil || *w.Wanted == *other.Wanted)
}

// node is a machine of the portal, or what is left of one.
type node struct {
	Name         string    `json:"name"`
	ControlPlane bool      `json:"controlPlane,omitempty"`
	Version      string    `json:"version,omitempty"`
	State        NodeState `json:"state"`
}

// job is one of the portal's.
type job struct {
	ID      string             `json:"id"`
	Kind    emulator.JobKind   `json:"kind"`
	Cluster string             `json:"cluster,omitempty"` // name, or id of a cluster that is gone
	Status  emulator.JobStatus `json:"status"`
	Percent *int               `json:"percent,omitempty"` // of the time that it takes at least. At most 99 until it has ended. Nil if not known
	Seconds int                `json:"seconds"`           // since the portal accepted it, or until it ended
}

// jobsShown is how many jobs the page lists.
const jobsShown = 12

// read reads everything that the page shows beside the log, and the moments that Kubernetes knows.
func (p *page) read(ctx context.Context) (state, []Moment) {
	s := state{
		Title: p.Title, ReadOnly: p.ReadOnly, Kubernetes: p.Options.Kubernetes != nil, Fleet: p.Portal == nil,
		Objects: []Cluster{}, Machines: []Machine{},
	}
	if p.Step != nil {
		s.Step = p.Step()
	}
	var known Kubernetes
	if s.Kubernetes {
		var err error
		if known, err = p.Options.Kubernetes(ctx); err != nil {
			s.Problem = "The Machines cannot be read: " + err.Error()
		}
		s.Machines, s.Objects = append(s.Machines, known.Machines...), append(s.Objects, known.Clusters...)
	}
	if s.Fleet {
		s.Minutes, s.Clusters, s.Jobs = fleetMinutes, fleet(known), operations(known, time.Now())
		s.Budgets, s.Faults = []emulator.Budget{}, []emulator.FaultState{}
		return s, known.Moments
	}
	s.VictimOrder, s.Budgets, s.Faults = p.Portal.VictimOrder(), p.Portal.Budgets(), p.Portal.Faults()
	s.Clusters, s.Jobs = clusters(p.Portal, known), jobs(p.Portal, time.Now())
	return s, nil
}

// clusters returns the portal's clusters, oldest first.
func clusters(portal *emulator.Portal, known Kubernetes) []cluster {
	instances, objects := map[string][]emulator.Instance{}, map[string][]Node{} // by cluster
	for _, i := range portal.Instances() {
		instances[i.ClusterID] = append(instances[i.ClusterID], i)
	}
	for _, n := range known.Nodes {
		objects[n.ClusterID] = append(objects[n.ClusterID], n)
	}
	wanted := map[string]*int{}
	for i := range known.Clusters {
		wanted[known.Clusters[i].ClusterID] = &known.Clusters[i].Wanted
	}
	all := portal.Clusters()
	out := make([]cluster, 0, len(all))
	for _, c := range all {
		shown := cluster{
			ID: c.ID, Name: c.Name, State: c.State, Version: c.Version, Nodes: nodes(c, instances[c.ID], objects[c.ID]),
		}
		shown.workers = workers{Wanted: wanted[c.ID], Size: c.Size, Ready: ready(shown.Nodes, objects[c.ID])}
		out = append(out, shown)
	}
	return out
}

// ready returns how many workers have a Ready Node, or how many are up if no Node is known.
func ready(nodes []node, known []Node) (count int) {
	isReady := map[string]bool{}
	for _, k := range known {
		isReady[k.Name] = k.Ready
	}
	for _, n := range nodes {
		switch {
		case n.ControlPlane:
		case len(known) > 0 && isReady[n.Name], len(known) == 0 && n.State == NodeUp:
			count++
		}
	}
	return count
}

// nodes returns the nodes of a cluster, oldest first. An instance that the cluster no longer lists is being removed.
func nodes(c emulator.Cluster, instances []emulator.Instance, known []Node) []node {
	states := map[string]NodeState{}
	for _, k := range known {
		states[k.Name] = k.State
	}
	running := map[string]bool{} // by id
	for _, i := range instances {
		running[i.ID] = i.State == emulator.InstanceRunning
	}
	out := []node{}
	listed := map[string]bool{} // by id
	for _, n := range c.Nodes {
		listed[n.ID] = true
		shown := node{Name: n.Name, ControlPlane: n.ControlPlane, Version: n.Version, State: NodeUp}
		switch {
		case n.Gone:
			shown.State = NodeGone
		case !running[n.ID]:
			shown.State = NodeJoining
		case states[n.Name] != "":
			shown.State = states[n.Name]
		}
		out = append(out, shown)
	}
	for _, i := range instances {
		// A machine that is replaced under its name is shown once, as the new one.
		replaced := slices.ContainsFunc(out, func(n node) bool { return n.Name == i.Name })
		if !listed[i.ID] && !replaced {
			out = append(out, node{Name: i.Name, State: NodeLeaving})
		}
	}
	return out
}

// jobs returns the newest jobs, newest first.
func jobs(portal *emulator.Portal, now time.Time) []job {
	names := map[string]string{}
	for _, c := range portal.Clusters() {
		names[c.ID] = c.Name
	}
	all := portal.Jobs()
	slices.Reverse(all)
	out := []job{}
	for _, j := range all[:min(len(all), jobsShown)] {
		shown := job{ID: j.ID, Kind: j.Kind, Cluster: j.ClusterID, Status: j.Status}
		if name := names[j.ClusterID]; name != "" {
			shown.Cluster = name
		}
		end, percent := now, 100
		if j.Ended.IsZero() {
			percent = progress(j, now)
		} else {
			end = j.Ended
		}
		shown.Percent = &percent
		shown.Seconds = int(end.Sub(j.Accepted).Seconds())
		out = append(out, shown)
	}
	return out
}

// progress returns how much of the time that a job takes at least has passed, in percent.
func progress(j emulator.Job, now time.Time) int {
	takes := j.Due.Sub(j.Accepted)
	if takes <= 0 {
		return 99
	}
	return min(max(int(100*now.Sub(j.Accepted)/takes), 0), 99)
}
