// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// View is everything that a plan is based on.
type View struct {
	ClusterID string
	// Desired is the number of workers that the replicas of all MachineDeployments and of the pool ask for.
	Desired int
	// Unasked reports that no object asks for workers. Then drained nodes are removed, as far as the portal takes them before any
	// other, and all others stay. Desired is how many stay at least.
	Unasked bool
	// Size is the number of workers that the portal last accepted, or negative if it never accepted one. SizeUncertain reports
	// that a request failed half way, its answer was lost, or the cluster was scaled outside of the provider. The portal then
	// runs at most Size workers.
	Size          int
	SizeUncertain bool
	// Activity is the operation in flight at the portal, and Target the number of workers that a scale leaves.
	Activity Activity
	Target   int
	// AnswerLost reports that the portal's answer to the request was lost, so the operation may or may not be running.
	// MayResend reports that the portal may be asked again.
	AnswerLost, MayResend bool
	// Order is the order in which the portal is expected to remove batches of workers. OrderAssumed reports that this is a guess.
	// Evidence is what the scale-downs of this cluster have shown.
	Order        removal.Order
	OrderAssumed bool
	Evidence     removal.Evidence
	// DrainPossible: the portal is asked only when every node that it may remove is drained, not only the nodes that it is expected to
	// remove.
	DrainPossible bool
	// Before are the nodes that existed before the last scale. ScaledDown reports that this was a scale-down that succeeded and
	// that was not yet compared with the nodes that it left. Ended is when the last scale-down was seen to have ended, or zero, as
	// it is while it runs.
	Before     []removal.NodeSnapshot
	ScaledDown bool
	Ended      time.Time
	// Adopted reports that the cluster was taken over and never scaled by the provider. Its surplus nodes are never removed.
	Adopted bool
	// Autoscaled reports that the cluster autoscaler may scale a MachineDeployment of the cluster, or its pool.
	Autoscaled bool
	Now        time.Time
	Machines   []Machine
	Nodes      []Node // workers only
	Pool       *Pool  // nil if the cluster has no pool
}

// existedBefore reports whether the Node's machine existed before the last scale, as far as is known.
func (v *View) existedBefore(n Node) bool {
	return len(v.Before) == 0 || contains(v.Before, n)
}

func (v *View) readyCount() int { return len(keep(v.Nodes, func(n Node) bool { return n.Ready })) }

// takesNodes reports whether the portal is removing or replacing nodes.
func (v *View) takesNodes() bool {
	return v.Activity == RemovingNodes || v.Activity == ReplacingNodes
}

// removalSeen reports whether the portal has already removed as many nodes as it was asked to, although its job still runs.
func (v *View) removalSeen() bool {
	return v.Activity == RemovingNodes && len(v.Nodes) <= v.Target
}

// Activity is what the portal is doing to nodes.
type Activity int

// The operations.
const (
	Idle           Activity = iota
	AddingNodes             // scale up
	RemovingNodes           // scale down
	ReplacingNodes          // upgrade: nodes may go and come back, under the same names or under others
)

// Machine is a Machine of Cluster API with its PortalMachine.
type Machine struct {
	Name    string
	Created time.Time
	Owner   string // Machines with the same owner may follow each other on a node: the MachineDeployment, else the MachineSet

	Outdated         bool // of an older revision of its MachineDeployment. Another kubelet version alone does not count
	DeleteFirst      bool // annotated to be deleted first
	TemplateMismatch bool // its template asks for other workers than the portal cluster has
	Deleting         bool // it or its PortalMachine is being deleted
	PreDrain         bool // our pre-drain hook is on it
	PreTerminate     bool // our pre-terminate hook is on it
	AtPreTerminate   bool // core waits at the pre-terminate hook, and for ours alone
	DrainSkipped     bool // core came to that hook without a drain, although it knew the Node

	// Claim names the node, in the spec of the PortalMachine.
	Claim NodeID
	// DrainRules are the rules for the drain of its node, as they are noted on the Node.
	DrainRules string
	// PortalMachineDeleted reports that the PortalMachine is deleted or being deleted. Core copies nothing from it any more.
	PortalMachineDeleted bool
	// ProviderID and NodeRef are from the Machine.
	ProviderID, NodeRef string
}

// NodeID identifies a Node. A Node that joins again under its name has another UID, and the portal may give it the same providerID.
type NodeID struct{ Name, UID, ProviderID string }

// Node is a worker Node of the workload cluster.
type Node struct {
	NodeID
	Created time.Time
	Ready   bool

	DrainState
	Uninitialized      bool      // the portal's cloud controller has yet to set its providerID, or what else it sets
	NotReadySince      time.Time // when it was last Ready, or zero if unknown
	LastOwner          string    // Machine.Owner of the Machine that last held it, as far as is known, or "" if none has held it
	DrainRules         string    // the rules for its drain that its last Machine noted, or ""
	Batch              string    // the id of the operation that made it, or "" if it is older, or made by the creation
	BatchNoted         string    // what the Node says about that
	Position           int       // in the portal's list of instances, from 1, or 0 if unknown
	Pinned             bool      // the autoscaler must leave it alone: a Pod on it must not be evicted, or the user has said so
	ScaleDownDisabled  bool      // the provider has disabled scaling it down
	ScaleDownSetByUser bool      // the user has set the autoscaler's annotation, which is left alone
	Refused            bool      // its last change was refused, or that of a Machine that has it
}

// DrainState is how far a Node is on its way out. It is empty if the Node is in use.
type DrainState struct {
	Cordoned            bool
	TaintedByAutoscaler bool      // the cluster autoscaler is about to remove it
	DrainStarted        time.Time // when the provider started to drain it, or zero
	Drained             time.Time // when its drain ended, by core or by the provider, or zero
}

// drainingOrDrained reports whether the Node is being drained by the provider, or was drained and waits for its removal.
func (d DrainState) drainingOrDrained() bool { return !d.DrainStarted.IsZero() || !d.Drained.IsZero() }

// drained reports whether the Node was drained and still is.
func (d DrainState) drained() bool { return !d.Drained.IsZero() && d.Cordoned }

// state of a claim, as described in doc.go.
type state int

const (
	stateUnbound state = iota
	stateBound
	stateLost
	stateHeld
	stateDraining
	stateDrained
	stateReleased
)

// ReleasedProviderID is the providerID of a released claim. No Node carries it.
func ReleasedProviderID(clusterID, machine string) string {
	return "portal://" + clusterID + released + machine
}

const released = "/released/"

// IsReleased reports whether the providerID is that of a released claim.
func IsReleased(providerID string) bool { return strings.Contains(providerID, released) }

// providerID returns the providerID for a Node that has none.
func providerID(clusterID, node string) string { return "portal://" + clusterID + "/" + node }

// SetByProvider reports whether the providerID is one that the provider gives to Nodes.
func SetByProvider(clusterID, id string) bool {
	return strings.HasPrefix(id, providerID(clusterID, ""))
}

// idIn returns the providerID that the Node has, or will get.
func (n Node) idIn(clusterID string) string {
	return cmp.Or(n.ProviderID, providerID(clusterID, n.Name))
}

// state returns the state of a Machine, given whether the node of its claim exists. A released claim of a Machine that is not
// being deleted counts as none: moving or restoring its objects has dropped the deletion.
func (m Machine) state(nodeExists bool) state {
	switch {
	case IsReleased(m.Claim.ProviderID) && m.Deleting:
		return stateReleased
	case m.Deleting && m.AtPreTerminate && !m.PreDrain:
		return stateDrained
	case m.Deleting && m.PreDrain:
		return stateHeld
	case m.Deleting && m.PreTerminate:
		return stateDraining
	case m.Claim.UID == "" || IsReleased(m.Claim.ProviderID):
		return stateUnbound
	case !nodeExists:
		return stateLost
	}
	return stateBound
}

// blockedByHooks reports whether core waits for the provider before it deletes the Machine. Without hooks, core is about to
// finish the deletion, although its last condition may not show that yet.
func (m Machine) blockedByHooks() bool { return m.Deleting && (m.PreDrain || m.PreTerminate) }

// passedPreDrain reports whether core went past the pre-drain hook without a drain, because it knew no Node at that time. It does
// not drain the Machine any more.
func (m Machine) passedPreDrain() bool { return m.AtPreTerminate && m.PreDrain }

// namesNoNode reports whether the Machine shows nothing by which core could find a Node for it, now or later.
func (m Machine) namesNoNode() bool {
	return m.Claim.ProviderID == "" && m.ProviderID == "" && m.NodeRef == ""
}

// wasDraining reports whether the Machine has the hooks of a Machine that is being drained, and is not being deleted.
func (m Machine) wasDraining() bool { return !m.Deleting && !m.PreDrain && m.PreTerminate }
