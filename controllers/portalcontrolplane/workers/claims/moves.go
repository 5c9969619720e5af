// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// Move is one change that a Write has made to a Machine, a Node or the pool, in the words of the log.
type Move string

// The moves that end or begin something that a user watches. Each of them is an event too.
const (
	DrainByCore     Move = "Let core drain the Node"
	DrainByProvider Move = "Began to drain the Node"
	Drained         Move = "Recorded that the drain has ended"
	Uncordoned      Move = "Made the Node schedulable"
	ChangedNode     Move = "Moved the Machine to another Node"
)

// moves of one Write.
type moves []Move

func (all *moves) add(made bool, m Move) {
	if made {
		*all = append(*all, m)
	}
}

// Moves returns what the Write changes. Once it was made, Want is what was written.
func (w Write) Moves() []Move {
	var all moves
	switch w.Step {
	case WriteList:
		all.add(true, "Changed the list of the pool")
	case WriteNode, DrainNode:
		all.ofNode(w.Node.Seen, w.Node.Want)
	case DeleteNode:
		all.add(w.Node.Want != w.Node.Seen, "Deleted the Node of a drained machine that the portal has removed")
	case WriteMachine:
		all.ofMachine(w.Machine.Seen, w.Machine.Want)
	case WriteClaim:
		all.ofClaim(w.Machine.Seen, w.Machine.Want)
	case WriteNodeRef:
		all.add(w.Machine.Want.NodeRef == "", "Removed the nodeRef of the Machine")
		all.add(w.Machine.Want.NodeRef != "", "Set the nodeRef of the Machine")
	}
	return all
}

func (all *moves) ofNode(seen, want Node) {
	all.add(seen.ProviderID != want.ProviderID, "Gave the Node a providerID")
	all.add(seen.DrainStarted.IsZero() && !want.DrainStarted.IsZero(), DrainByProvider)
	all.add(!want.Drained.IsZero() && want.Drained != seen.Drained, Drained)
	all.add(seen.DrainState != want.DrainState && !want.Cordoned, Uncordoned)
	all.add(seen.DrainRules != want.DrainRules, "Noted the Machine's rules for drains on the Node")
	all.add(seen.BatchNoted != want.BatchNoted, "Noted on the Node which operation made it")
	all.add(!seen.ScaleDownDisabled && want.ScaleDownDisabled, "Kept the cluster autoscaler from removing the Node")
	all.add(seen.ScaleDownDisabled && !want.ScaleDownDisabled, "Let the cluster autoscaler remove the Node")
}

func (all *moves) ofMachine(seen, want Machine) {
	all.add(want.PreDrain && !seen.PreDrain || want.PreTerminate && !seen.PreTerminate, "Put the deletion hooks on the Machine")
	all.add(seen.PreDrain && !want.PreDrain && want.PreTerminate, DrainByCore)
	all.add(seen.PreTerminate && !want.PreTerminate, "Removed the deletion hooks from the Machine")
	all.add(seen.DeleteFirst != want.DeleteFirst, "Marked the Machine to be deleted first")
}

func (all *moves) ofClaim(seen, want Machine) {
	hadNode := seen.Claim.Name != "" && !IsReleased(seen.Claim.ProviderID)
	switch {
	case seen.Claim == want.Claim:
	case IsReleased(want.Claim.ProviderID):
		all.add(true, "Released the Machine from its Node")
	default:
		all.add(hadNode, ChangedNode)
		all.add(!hadNode, "Bound the Machine to the Node")
	}
}

// reasons are why an object changes, for people. One plan may have several.
type reasons []string

func (r *reasons) add(format string, args ...any) {
	*r = append(*r, fmt.Sprintf(format, args...))
}

func (r reasons) String() string {
	return strings.Join(r, "; ")
}

// wanted is how many workers are wanted, and how many exist.
func (p *planner) wanted() string {
	if p.Unasked {
		return fmt.Sprintf("no object asks for workers, and the number of workers is %d", len(p.workers))
	}
	return fmt.Sprintf("the sum of the replicas is %d, and the number of workers is %d", p.Desired, len(p.workers))
}

// goes is why a node is drained.
func (p *planner) goes(n *worker) string {
	return fmt.Sprintf("%s. The portal is expected to remove Node %s next (%s)", p.wanted(), n.Name, p.orderWords())
}

// goesInstead is why a node is drained that may stay.
func (p *planner) goesInstead(n *worker) string {
	return fmt.Sprintf("%s. The portal may remove Node %s instead of another one that it made with it", p.wanted(), n.Name)
}

func (v *View) orderWords() string {
	switch {
	case v.Order == removal.Random:
		return "its order is unknown"
	case v.OrderAssumed:
		return fmt.Sprintf("%s first, which is assumed", v.Order)
	}
	return fmt.Sprintf("%s first", v.Order)
}

// namesShown is how many Nodes a reason names at most. It is stored with the request.
const namesShown = 10

// requestReason is why the portal is asked for this number of workers. A request for fewer names the nodes that it is expected to remove.
func (p *planner) requestReason(size int) string {
	var why reasons
	why.add("%s", p.wanted())
	if p.AnswerLost {
		why.add("the answer to the last request was lost")
	} else if p.SizeUncertain {
		why.add("it is uncertain how many workers the portal runs")
	}
	var going []string
	for _, n := range p.line[:max(0, len(p.workers)-size)] {
		going = append(going, n.Name)
	}
	if more := len(going) - namesShown; more > 0 {
		going = append(going[:namesShown], fmt.Sprintf("%d more", more))
	}
	if len(going) > 0 {
		why.add("drained, and expected to be removed (%s): %s", p.orderWords(), strings.Join(going, ", "))
	}
	return why.String()
}
