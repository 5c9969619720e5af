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
	// Order in which the portal is expected to remove workers, and the nodes that were there before a scale down that is
	// still to be compared with it.
	Order  Order
	Before []Sighting
	// DownRefused: the portal refused, or failed, to go down to what is desired. What was drained for it is released.
	DownRefused bool
	// Adopted: nodes that no Machine holds are somebody's, and not removed.
	Adopted bool
	// Takeovers are allowed: core behaves as the facts say (design: tried on the real thing, test/facts).
	Takeovers bool
	Now       time.Time
	Machines  []Machine
	Nodes     []Node // workers only

	all []Node // Nodes, before those were left out whose machines are gone
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
	// Owner groups Machines that may follow each other on a node: the MachineDeployment, or what stands in its place.
	Owner string
	// Set is the MachineSet, as it stands on a Node that the Machine holds or held.
	Set string
	// Outdated: of an older revision of its MachineDeployment. A kubelet of another version alone does not make it so.
	Outdated bool
	// Marked: annotated to be deleted first.
	Marked bool
	// Unhealthy: a MachineHealthCheck has found it so already; to shield it now would not save it.
	Unhealthy bool
	// Shielded: our annotation keeps MachineHealthChecks from remediating it.
	Shielded bool
	// Foreign: its template asks for something else than the portal cluster's workers are made of.
	Foreign bool
	// Deleting: Machine or PortalMachine is being deleted.
	Deleting bool
	// PreDrain and PreTerminate: our hooks are on the Machine.
	PreDrain, PreTerminate bool
	// Drained: core waits at the pre-terminate hook, since DrainedAt.
	Drained   bool
	DrainedAt time.Time
	// Claim is what the PortalMachine's spec says.
	ClaimProviderID, ClaimNode, ClaimNodeUID string
	// ClaimGoes: somebody deletes the PortalMachine, or has; core takes nothing over from it any more.
	ClaimGoes bool
	// ProviderID and NodeRef are what the Machine shows.
	ProviderID, NodeRef string
}

// Node is a worker Node of the workload cluster.
type Node struct {
	Name, UID, ProviderID string
	Created               time.Time
	Ready, Cordoned       bool
	// Doomed: the cluster autoscaler has tainted it to be deleted.
	Doomed bool
	// LastSet is the MachineSet of the Machine that last held it; core writes it on the Node.
	LastSet string
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
	return "portal://" + clusterID + released + machine
}

const released = "/released/"

// IsReleased tells whether the providerID is that of a released claim.
func IsReleased(providerID string) bool { return strings.Contains(providerID, released) }

// ProviderID is the providerID that a Node gets which has none.
func ProviderID(clusterID, node string) string { return "portal://" + clusterID + "/" + node }

// state of a Machine, given the Node that its claim is on (nil: gone). A released claim of a Machine that is not being deleted is
// none: its objects were moved or restored, and nobody knows any more that they were being deleted.
func (v View) state(m Machine, node *Node) State {
	switch {
	case IsReleased(m.ClaimProviderID) && m.Deleting:
		return Released
	case m.Deleting && m.Drained:
		return Drained
	case m.Deleting && m.PreDrain:
		return Held
	case m.Deleting && m.PreTerminate:
		return Draining
	case m.ClaimNodeUID == "" || IsReleased(m.ClaimProviderID):
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
	// shared: another Machine, one that is not being deleted, is on the node too.
	shared bool
}

// present returns the Nodes whose machines exist. Without a cloud controller the Node objects of removed machines may
// stay: as long as there are more Nodes than the size that the finished operation set, those that are not Ready are
// the ones that are gone. If more are not Ready than that, it is those of them that no Machine holds; if even these are
// too many, nobody can tell.
func (v View) present() []Node {
	held := map[string]bool{}
	for _, m := range v.Machines {
		held[m.ClaimNodeUID] = held[m.ClaimNodeUID] || !IsReleased(m.ClaimProviderID)
	}
	ready := keep(v.Nodes, func(n Node) bool { return n.Ready })
	plausible := keep(v.Nodes, func(n Node) bool { return n.Ready || held[n.UID] })
	excess := len(v.Nodes) - v.Size
	switch {
	case v.Size < 0:
		return plausible // counted
	case v.Operation == AddsNodes || v.Operation == RemoveNodes:
		return v.Nodes
	case len(v.Nodes)-len(ready) <= excess:
		return ready
	case len(v.Nodes)-len(plausible) <= excess:
		return plausible
	}
	return v.Nodes
}

func keep(nodes []Node, wanted func(Node) bool) (kept []Node) {
	for _, n := range nodes {
		if wanted(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

// read sorts the view and resolves claims to nodes: older Machines and Nodes first, ties by name.
func (v View) read() (claims []claim, free []Node) {
	byUID := map[string]*Node{}
	taken := map[string]bool{}
	live := map[string]int{}
	for i, n := range v.Nodes {
		byUID[n.UID] = &v.Nodes[i]
	}
	for _, m := range v.Machines {
		node := byUID[m.ClaimNodeUID]
		if IsReleased(m.ClaimProviderID) {
			node = nil
		}
		c := claim{Machine: m, state: v.state(m, node), node: node}
		if c.node != nil {
			taken[node.UID] = true
			if !c.Deleting {
				live[node.UID]++
			}
		}
		claims = append(claims, c)
	}
	for i, c := range claims {
		if c.node != nil {
			claims[i].shared = c.Deleting && live[c.node.UID] > 0 || live[c.node.UID] > 1
		}
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

// named finds a Node by its name, whether its machine seems to be gone or not.
func (v View) named(name string) *Node {
	for i, n := range v.all {
		if n.Name == name {
			return &v.all[i]
		}
	}
	return nil
}

func byAge(a, b Node) int {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}
