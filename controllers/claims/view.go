// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// View is all that a plan is made from.
type View struct {
	ClusterID string
	// Desired is the number of workers that the replicas of all MachineDeployments ask for.
	Desired int
	// Size is the number of workers that the portal last accepted; negative: not known, counted from Nodes.
	Size int
	// Operation that runs at the portal for the cluster.
	Operation Operation
	Machines  []Machine
	Nodes     []Node // workers only
}

// Operation that runs at the portal.
type Operation int

// What may run at the portal, as far as nodes are concerned.
const (
	Idle        Operation = iota
	AddsNodes             // scale up
	RemoveNodes           // scale down
	Replaces              // upgrade: nodes may come and go under other names
)

// Machine is a CAPI Machine with its PortalMachine.
type Machine struct {
	Name    string
	Created time.Time
	// Deleting: Machine or PortalMachine is being deleted.
	Deleting bool
	// PreDrain and PreTerminate: our hooks are on the Machine.
	PreDrain, PreTerminate bool
	// Drained: core waits at the pre-terminate hook.
	Drained bool
	// Claim is what the PortalMachine's spec says.
	ClaimProviderID, ClaimNode, ClaimNodeUID string
	// ProviderID and NodeRef are what the Machine shows.
	ProviderID, NodeRef string
}

// Node is a worker Node of the workload cluster.
type Node struct {
	Name, UID, ProviderID string
	Created               time.Time
	Ready, Cordoned       bool
}

// State of a claim.
type State int

// The states of doc.go.
const (
	Unbound State = iota
	Bound
	Lost
	Held
	Draining
	Drained
	Released
)

// ReleasedProviderID is the providerID of a released claim: no Node carries it.
func ReleasedProviderID(clusterID, machine string) string {
	return releasedPrefix(clusterID) + machine
}

func releasedPrefix(clusterID string) string { return "portal://" + clusterID + "/released/" }

// ProviderID is the providerID that a Node gets which has none.
func ProviderID(clusterID, node string) string { return "portal://" + clusterID + "/" + node }

// state of a Machine, given the Node that its claim is on (nil: gone).
func (v View) state(m Machine, node *Node) State {
	switch {
	case strings.HasPrefix(m.ClaimProviderID, releasedPrefix(v.ClusterID)):
		return Released
	case m.Deleting && m.Drained:
		return Drained
	case m.Deleting && m.PreDrain:
		return Held
	case m.Deleting && m.PreTerminate:
		return Draining
	case m.ClaimNodeUID == "":
		return Unbound
	case node == nil:
		return Lost
	}
	return Bound
}

// claim is a Machine with its state and its node.
type claim struct {
	Machine
	state State
	node  *Node
}

// present returns the Nodes whose machines exist. Without a cloud controller the Node objects of removed machines may
// stay: as long as there are more Nodes than the size that the finished operation set, those that are not Ready are
// the ones that are gone, unless there are more of them than that.
func (v View) present() []Node {
	excess := len(v.Nodes) - v.Size
	if v.Operation != Idle || v.Size < 0 || excess <= 0 {
		return v.Nodes
	}
	var ready []Node
	for _, n := range v.Nodes {
		if n.Ready {
			ready = append(ready, n)
		}
	}
	if len(v.Nodes)-len(ready) > excess {
		return v.Nodes
	}
	return ready
}

// read sorts the view and resolves claims to nodes: older Machines and Nodes first, ties by name.
func (v View) read() (claims []claim, free []Node) {
	byUID := map[string]*Node{}
	taken := map[string]bool{}
	for i, n := range v.Nodes {
		byUID[n.UID] = &v.Nodes[i]
	}
	for _, m := range v.Machines {
		node := byUID[m.ClaimNodeUID]
		c := claim{Machine: m, state: v.state(m, node), node: node}
		if c.state == Released {
			c.node = nil
		}
		if c.node != nil {
			taken[node.UID] = true
		}
		claims = append(claims, c)
	}
	for _, n := range v.Nodes {
		if !taken[n.UID] {
			free = append(free, n)
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(free, byAge)
	return claims, free
}

func byAge(a, b Node) int {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}
