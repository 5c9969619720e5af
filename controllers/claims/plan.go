// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"
)

// Plan is what is to be done now, in this order; whatever is not said stays as it is.
type Plan struct {
	Moves []Move
	// Scale asks the portal for Size workers.
	Scale bool
	Size  int

	// Present are the worker nodes whose machines exist, as far as can be seen.
	Present []Node

	// Observed: the last scale down has shown that the portal removes workers in this Order.
	Observed bool
	Order    Order

	// After is when to look again though nothing happens before: something waits for its time. 0: an event will tell.
	After time.Duration

	// What the plan waits for, for conditions.
	Unbound  int      // live Machines without a node
	Lost     []string // the nodes that live Machines were bound to and that are gone
	Free     int      // nodes without a Machine
	Draining []string // Machines that core still drains
	Foreign  []string // Machines whose template the portal cannot honour: nothing moves while there are any
	NotReady []string // nodes that hold a Machine and are not Ready
}

// Move is one step for one Machine or Node; each is safe to be interrupted before and after.
type Move struct {
	Kind    MoveKind
	Machine string
	Node    Node
}

// MoveKind says what a Move does.
type MoveKind int

const (
	// AddHooks puts both deletion hooks on the Machine.
	AddHooks MoveKind = iota
	// NameNode gives the Node, which has no providerID, one.
	NameNode
	// Bind writes the Node's identity into the PortalMachine of a Machine that is not being deleted.
	Bind
	// PointAtNode makes the Machine's nodeRef name the Node that its claim is on.
	PointAtNode
	// StartDrain takes the pre-drain hook off: core drains the Node.
	StartDrain
	// Detach gives the PortalMachine a providerID that no Node has.
	Detach
	// ForgetNode takes the Machine's nodeRef away.
	ForgetNode
	// LetGo takes both hooks off: core finishes the deletion.
	LetGo
	// Uncordon makes the Node schedulable again.
	Uncordon
	// Swap is Bind for a Machine that is held: it takes the node that is expected to go.
	Swap
	// Mark has the MachineDeployment delete this Machine first.
	Mark
	// Shield keeps MachineHealthChecks from remediating the Machine.
	Shield
	// Unshield ends that.
	Unshield
)

// Make decides what is to be done.
func Make(v View) Plan {
	v.all, v.Nodes = v.Nodes, v.present()
	claims, free := v.read()
	p := &Plan{Present: v.Nodes}
	v.Order = v.observe(p)
	if v.foreign(p, claims) {
		v.finishReleased(p, claims)
		return *p
	}
	v.restore(p, claims)
	leaving, free := v.decideHeld(p, claims, free)
	v.decideGone(p, claims, leaving)
	free = v.bind(p, claims, free)
	v.shield(p, claims)
	p.Free = len(free)
	v.decideSize(p, claims, leaving, free)
	return *p
}

func (p *Plan) add(kind MoveKind, machine string, node *Node) {
	m := Move{Kind: kind, Machine: machine}
	if node != nil {
		m.Node = *node
	}
	p.Moves = append(p.Moves, m)
}

func (p *Plan) lookAgain(after time.Duration) {
	if after > 0 && (p.After == 0 || after < p.After) {
		p.After = after
	}
}

// foreign tells whether a Machine asks for something that the portal cannot change. Then nothing is bound, drained,
// moved or scaled until its template is reverted: from then on the Machine is outdated, and core deletes it.
func (v View) foreign(p *Plan, claims []claim) bool {
	for _, c := range claims {
		if c.Foreign && !c.Deleting && !c.Outdated {
			p.Foreign = append(p.Foreign, c.Name)
		}
	}
	return len(p.Foreign) > 0
}

// finishReleased ends what was released before the template became what it is: core waits for it.
func (v View) finishReleased(p *Plan, claims []claim) {
	for _, c := range claims {
		if c.state == Released {
			v.release(p, c)
		}
	}
}

// decideGone ends the claims of Machines that are being deleted and are not on their way out with a node: they are released,
// whether their node stays or is gone; all but those that core cannot do any harm with.
func (v View) decideGone(p *Plan, claims []claim, leaving map[string]bool) {
	for _, c := range claims {
		switch {
		case c.state == Released:
			v.release(p, c)
		case !c.waits() || leaving[c.Name]:
		case c.node == nil && c.unseen() && !c.ClaimGoes:
			p.add(LetGo, c.Name, nil)
		case c.node == nil && v.leftBehind(c):
			if v.Operation == Idle { // no machine of that name is on its way
				p.add(LetGo, c.Name, nil)
			}
		case v.Operation == RemoveNodes && c.state != Held:
			// The portal is removing nodes: whether this one goes is seen when it has finished.
		default:
			p.add(Detach, c.Name, c.node)
		}
	}
}

// waits tells whether core waits for us with the deletion of the Machine. Without hooks it was let go of: core is about to
// finish, though its last condition may still stand.
func (c claim) waits() bool {
	return (c.state == Held || c.state == Draining || c.state == Drained) && (c.PreDrain || c.PreTerminate)
}

// unseen tells whether the Machine shows nothing by which core could take a Node for its own, now or later.
func (c claim) unseen() bool { return c.ClaimProviderID == "" && c.ProviderID == "" && c.NodeRef == "" }

// leftBehind tells whether the machine of the claim is gone and its Node object is not: core alone deletes that, for the
// Machine. Where the object is gone too the Machine is released instead, for a new node may come under the name at any moment,
// and core would drain and delete that.
func (v View) leftBehind(c claim) bool {
	left := v.named(c.ClaimNode)
	return left != nil && left.UID == c.ClaimNodeUID && (c.NodeRef == "" || c.NodeRef == left.Name) &&
		!slices.ContainsFunc(v.all, func(n Node) bool { return n.UID != left.UID && n.ProviderID != "" && n.ProviderID == c.ClaimProviderID })
}

// release takes a released Machine's nodeRef once the Machine shows the providerID that no Node has; then, now that core
// cannot drain it any more, it makes the node schedulable again that was being drained for it, or that the autoscaler has
// tainted; then it takes the hooks.
func (v View) release(p *Plan, c claim) {
	left := v.named(c.ClaimNode) // core drains by name
	switch {
	case c.ProviderID != c.ClaimProviderID && (c.ProviderID != "" || c.ClaimNodeUID != "" && !c.ClaimGoes):
		// core has yet to take the providerID over; even where it shows none, for it may just be about to write the one before
	case c.NodeRef != "":
		p.add(ForgetNode, c.Name, nil)
	case left != nil && (left.Doomed || left.Cordoned && !c.PreDrain && c.PreTerminate):
		p.add(Uncordon, c.Name, left)
	case c.PreDrain || c.PreTerminate:
		p.add(LetGo, c.Name, nil)
	}
}

// shield keeps MachineHealthChecks away while the portal changes which nodes there are, and from a Machine that was bound
// to a node that is not Ready; it ends when the node is Ready and the portal has finished.
func (v View) shield(p *Plan, claims []claim) {
	for _, c := range claims {
		if c.Deleting || c.ClaimNodeUID == "" {
			continue
		}
		ready := c.node != nil && c.node.Ready && c.NodeRef == c.node.Name // a MachineHealthCheck goes by the nodeRef
		switch {
		case v.Operation != Idle && !c.Shielded && !c.Unhealthy:
			p.add(Shield, c.Name, nil)
		case v.Operation == Idle && c.Shielded && ready && !p.has(Bind, c.Name): // another node may not be Ready
			p.add(Unshield, c.Name, nil)
		}
		if c.node != nil && !c.node.Ready {
			p.NotReady = append(p.NotReady, c.node.Name)
		}
	}
}
