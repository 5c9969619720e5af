// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"time"

	"pgregory.net/rapid"
)

// The portal.

// addNode adds one, perhaps under the name of one that is gone.
func (w *world) addNode(created time.Time) {
	name := w.name("n")
	if len(w.freed) > 0 && rapid.Bool().Draw(w.t, "name reused") {
		name, w.freed = w.freed[0], w.freed[1:]
	}
	w.say("portal adds %s", name)
	n := &kubeNode{Node: Node{Name: name, UID: "uid-" + w.name("u"), Created: created, Ready: true}, running: true}
	if w.ids {
		n.ProviderID = "cloud://" + name
	}
	w.nodes = append(w.nodes, n)
}

func (w *world) removeNode() *kubeNode {
	running := w.running()
	switch w.order {
	case "newest":
		running = sameAge(running, running[len(running)-1])
	case "oldest":
		running = sameAge(running, running[0])
	}
	victim := rapid.SampledFrom(running).Draw(w.t, "victim")
	w.say("portal removes %s", victim.Name)
	victim.running, victim.Ready = false, false
	if !w.leftover {
		w.nodes = slices.DeleteFunc(w.nodes, func(n *kubeNode) bool { return n == victim })
		w.freed = append(w.freed, victim.Name)
	}
	return victim
}

// sameAge returns the nodes of the same second as one of them.
func sameAge(nodes []*kubeNode, as *kubeNode) []*kubeNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *kubeNode) bool { return !n.Created.Equal(as.Created) })
}

// otherAge returns the nodes of which none of the others is of the same second.
func otherAge(nodes, others []*kubeNode) []*kubeNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *kubeNode) bool { return len(sameAge(others, n)) > 0 })
}

// remove has the portal remove workers. Where the provider has no reason to expect anything else than what this portal
// does, no node may go undrained while a drained one stays, unless one of the same second goes in its stead.
func (w *world) remove() {
	var gone, undrained []*kubeNode
	for w.size > w.target {
		victim := w.removeNode()
		gone = append(gone, victim)
		if !victim.Cordoned && w.held(victim) {
			undrained = append(undrained, victim)
		}
		w.size--
	}
	live := slices.DeleteFunc(slices.Clone(w.machines), func(m *model) bool { return m.Deleting })
	if len(live) > w.desired() {
		return // core deletes no more of them before those that are drained are gone
	}
	var stay []*kubeNode
	for _, m := range w.machines {
		n := w.node(m.ClaimNodeUID)
		if m.Deleting && m.Drained && m.begun > w.turned && !IsReleased(m.ClaimProviderID) && n != nil && n.running {
			stay = append(stay, n)
		}
	}
	undrained, stay = otherAge(undrained, stay), otherAge(stay, gone)
	asExpected := w.order == "newest" && w.learned == NewestFirst || w.order == "oldest" && w.learned == OldestFirst
	if asExpected && len(undrained) > 0 && len(stay) > 0 {
		w.fail("%s went undrained, and %s, which is drained, stays", undrained[0].Name, stay[0].Name)
	}
}

// takingOver tells whether two live Machines are on one node.
func (w *world) takingOver() bool {
	on := map[string]bool{}
	for _, m := range w.machines {
		if !m.Deleting && m.ClaimNodeUID != "" {
			if on[m.ClaimNodeUID] {
				return true
			}
			on[m.ClaimNodeUID] = true
		}
	}
	return false
}

// held tells whether a Machine claims the node: one that none does goes without a drain.
func (w *world) held(n *kubeNode) bool {
	return slices.ContainsFunc(w.machines, func(m *model) bool { return m.ClaimNodeUID == n.UID && !IsReleased(m.ClaimProviderID) })
}

// finish ends the operation that runs at the portal.
func (w *world) finish() {
	if w.failing && w.operation != Idle {
		w.fails()
		return
	}
	switch w.operation {
	case Idle:
		return
	case AddsNodes:
		for created := w.clock; w.size < w.target; w.size++ {
			w.addNode(created)
		}
	case RemoveNodes:
		w.remove()
	case Replaces:
		if len(w.away) == 0 && len(w.running()) > 0 && rapid.Bool().Draw(w.t, "away") {
			w.takeAway()
			return
		}
		w.nodes, w.away = append(w.nodes, w.away...), nil
		created := w.clock
		for _, n := range w.nodes { // the same names, new machines
			if n.running {
				w.renew(n, created)
			}
		}
	}
	w.say("portal is done: %d workers", w.size)
	w.operation, w.recorded, w.refused = Idle, w.size, -1
}

// takeAway has the portal replace nodes: they are gone, and come back under their names when it is done.
func (w *world) takeAway() {
	for _, n := range w.running() {
		if rapid.Bool().Draw(w.t, "goes") {
			w.say("%s is away", n.Name)
			w.away = append(w.away, n)
			w.nodes = slices.DeleteFunc(w.nodes, func(o *kubeNode) bool { return o == n })
		}
	}
}

// renew makes the node another machine of the same name.
func (w *world) renew(n *kubeNode, created time.Time) {
	n.UID = "uid-" + w.name("u")
	n.Created, n.Cordoned, n.Ready, n.sick, n.remediated = created, false, true, false, 0
	if !w.ids {
		n.ProviderID = ""
	}
}

// fails ends the operation that runs at the portal; what it has taken away comes back.
func (w *world) fails() {
	w.say("portal fails")
	for _, n := range w.away {
		w.renew(n, w.clock)
	}
	w.nodes, w.away = append(w.nodes, w.away...), nil
	if w.operation == RemoveNodes {
		w.refused = w.asked
	}
	if w.operation != Replaces {
		w.recorded, w.before = -1, nil
	}
	w.operation, w.failing = Idle, false
}
