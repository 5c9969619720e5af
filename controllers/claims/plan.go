// SPDX-License-Identifier: Apache-2.0

package claims

// Plan is what is to be done now, in this order; whatever is not said stays as it is.
type Plan struct {
	Moves []Move
	// Scale asks the portal for Size workers.
	Scale bool
	Size  int

	// What the plan waits for, for conditions.
	Unbound     int      // live Machines without a node
	Free        int      // nodes without a Machine
	Draining    []string // Machines that core still drains
	DrainsFirst bool     // a scale down waits for them
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
	// Bind writes the Node's identity into the PortalMachine.
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
)

// Make decides what is to be done.
func Make(v View) Plan {
	v.Nodes = v.present()
	claims, free := v.read()
	p := &Plan{}
	surplus := v.decideHeld(p, claims)
	v.decideGone(p, claims, surplus)
	free = v.bind(p, claims, free)
	p.Free = len(free)
	v.decideSize(p, claims, free)
	return *p
}

func (p *Plan) add(kind MoveKind, machine string, node *Node) {
	m := Move{Kind: kind, Machine: machine}
	if node != nil {
		m.Node = *node
	}
	p.Moves = append(p.Moves, m)
}

// decideHeld sends as many of the Machines that are being deleted on to be drained as there are workers too many, and
// releases the others at once: a MachineSet makes no replacement before they are gone. It returns the Machines that
// stay on their way out.
func (v View) decideHeld(p *Plan, claims []claim) map[string]bool {
	surplus := len(v.Nodes) - v.Desired
	leaving := map[string]bool{}
	// Those that drain already come first, then the newest: the portal is expected to remove the newest nodes.
	for _, state := range []State{Drained, Draining, Held} {
		for i := len(claims) - 1; i >= 0; i-- {
			c := claims[i]
			if c.state != state || c.node == nil || surplus <= 0 {
				continue
			}
			leaving[c.Name] = true
			surplus--
			if state == Held && v.Operation != RemoveNodes {
				p.add(StartDrain, c.Name, c.node)
			}
		}
	}
	return leaving
}

// decideGone ends the claims of Machines that are being deleted and are not on their way out with a node: either their
// node is gone already, or it stays and the Machine is released.
func (v View) decideGone(p *Plan, claims []claim, leaving map[string]bool) {
	for _, c := range claims {
		switch {
		case c.state == Released:
			v.release(p, c)
		case c.state != Held && c.state != Draining && c.state != Drained || leaving[c.Name]:
		case c.node == nil && !v.nameLives(c.NodeRef):
			p.add(LetGo, c.Name, nil)
		case v.Operation == RemoveNodes && c.state != Held:
			// The portal is removing nodes: whether this one goes is seen when it has finished.
		default:
			p.add(Detach, c.Name, c.node)
			if c.node != nil && c.node.Cordoned {
				p.add(Uncordon, c.Name, c.node)
			}
		}
	}
}

// release takes a released Machine's nodeRef once the Machine shows the providerID that no Node has, then its hooks.
func (v View) release(p *Plan, c claim) {
	switch {
	case c.ProviderID != c.ClaimProviderID && c.ProviderID != "":
		// core has yet to take the providerID over
	case c.NodeRef != "":
		p.add(ForgetNode, c.Name, nil)
	case c.PreDrain || c.PreTerminate:
		p.add(LetGo, c.Name, nil)
	}
}

// nameLives tells whether a Node of that name exists: deleting a Machine would delete it.
func (v View) nameLives(name string) bool {
	for _, n := range v.Nodes {
		if n.Name == name {
			return true
		}
	}
	return false
}

// bind gives free nodes to Machines that have none. It returns the nodes that stay free.
func (v View) bind(p *Plan, claims []claim, free []Node) []Node {
	settled := v.Operation == Idle || v.Operation == AddsNodes
	for _, c := range claims {
		switch {
		case c.Deleting:
		case c.state == Bound:
			v.mend(p, c)
		case c.state == Unbound || c.state == Lost:
			i := firstReady(free)
			if i < 0 || !settled {
				p.Unbound++
				continue
			}
			node := free[i]
			free = append(free[:i:i], free[i+1:]...)
			v.bindTo(p, c, node)
		}
	}
	return free
}

// mend completes a bind that was interrupted, or whose Machine still points at the node it had before.
func (v View) mend(p *Plan, c claim) {
	if !c.PreDrain || !c.PreTerminate {
		p.add(AddHooks, c.Name, nil)
	}
	if c.NodeRef != "" && c.NodeRef != c.node.Name && c.ProviderID == c.ClaimProviderID {
		p.add(PointAtNode, c.Name, c.node)
	}
}

func (v View) bindTo(p *Plan, c claim, node Node) {
	if !c.PreDrain || !c.PreTerminate {
		p.add(AddHooks, c.Name, nil)
	}
	if node.ProviderID == "" {
		node.ProviderID = ProviderID(v.ClusterID, node.Name)
		p.add(NameNode, c.Name, &node)
	}
	p.add(Bind, c.Name, &node)
}

func firstReady(nodes []Node) int {
	for i, n := range nodes {
		if n.Ready {
			return i
		}
	}
	return -1
}
