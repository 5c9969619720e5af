// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// The portal.

// addNodes adds nodes until the cluster has its size. One job makes them, and they join in any order.
func (w *world) addNodes(size int) {
	begin := w.clock
	w.jobs++
	count := size - len(w.running())
	for range count {
		w.addNode(begin.Add(time.Duration(rapid.IntRange(0, count-1).Draw(w.t, "joins after")) * time.Second))
	}
}

// addNode adds a node, possibly under the name of one that is gone.
func (w *world) addNode(created time.Time) {
	name := w.name("n")
	if len(w.freed) > 0 && rapid.Bool().Draw(w.t, "name reused") {
		name, w.freed = w.freed[0], w.freed[1:]
	}
	w.say("portal adds %s", name)
	w.nodes = append(w.nodes, w.newNode(name, "cloud://"+w.name("i"), created))
}

// newNode returns a node with its providerID, if the portal sets it. If its cloud controller does so later, no Pods run on the node until then.
func (w *world) newNode(name, id string, created time.Time) *kubeNode {
	n := &kubeNode{Node: Node{NodeID: NodeID{Name: name, UID: "uid-" + w.name("u")}, Created: created, Ready: true}, running: true, busy: true, job: w.jobs}
	if !w.ids {
		return n
	}
	if n.ProviderID = id; w.late && rapid.Bool().Draw(w.t, "uninitialized") {
		n.ProviderID, n.cloudID, n.Uninitialized, n.busy = "", id, true, false
	}
	return n
}

// initialize is a pass of the portal's cloud controller. It takes a while until it sees a new node.
func (w *world) initialize() {
	for _, n := range w.running() {
		if n.Uninitialized && w.clock.Sub(n.Created) >= 30*time.Second {
			n.ProviderID, n.Uninitialized = n.cloudID, false
		}
	}
}

// removeNode removes the next worker. If the provider knows the order, or all workers go, no Pods run on it, unless the provider could not
// know that another node of the same job would stay.
func (w *world) removeNode() {
	candidates := w.running()
	switch w.order {
	case removal.Newest:
		candidates = sameJob(candidates, candidates[len(candidates)-1])
		slices.Reverse(candidates)
	case removal.Oldest:
		candidates = sameJob(candidates, candidates[0])
	}
	victim := rapid.SampledFrom(candidates).Draw(w.t, "victim")
	if w.listed && w.order != removal.Random {
		victim = candidates[0]
	}
	w.schedule() // Kubernetes may have evicted Pods since the last round
	w.say("portal removes %s", victim.Name)
	guess := !w.told(victim, candidates) && slices.ContainsFunc(candidates, func(n *kubeNode) bool { return !n.busy })
	if (w.orderKnown() || w.target == 0) && victim.busy && !guess && !w.presumedGone() {
		w.dump()
		w.fail("%s is removed with running Pods", victim.Name)
	}
	victim.running, victim.stopped = false, w.clock
	if !w.leftover {
		w.nodes = without(w.nodes, victim)
		w.freed = append(w.freed, victim.Name)
	}
	w.size--
}

// sameJob returns the nodes that the same job made as one of them.
func sameJob(nodes []*kubeNode, as *kubeNode) []*kubeNode {
	return filter(nodes, func(n *kubeNode) bool { return n.job == as.job })
}

// told reports whether what removals have shown tells which of the nodes goes first.
func (w *world) told(victim *kubeNode, candidates []*kubeNode) bool {
	return !slices.ContainsFunc(candidates, func(n *kubeNode) bool {
		return n != victim && w.learned.Compare(victim.snapshot(), n.snapshot()) >= 0
	})
}

// finish completes the operation in flight at the portal, or takes an upgrade one step further.
func (w *world) finish() {
	switch {
	case w.operation == Idle:
		return
	case w.unheard: // the portal is idle
		return
	case w.operation == RemovingNodes && (w.struck("fail") || w.struck("half")):
		w.fails()
		return
	}
	switch w.operation {
	case AddingNodes:
		w.size = max(w.size, w.target)
		w.addNodes(w.size)
	case RemovingNodes:
		for w.size > w.target {
			w.removeNode()
		}
	case ReplacingNodes:
		if w.replaceOne() {
			return
		}
	}
	w.say("portal is done: %d workers", w.size)
	if w.lost {
		return // nothing reports it to the provider
	}
	w.compare = w.operation == RemovingNodes
	w.end()
	w.pause = 0
	w.recorded, w.uncertain = w.size, false
}

// end is when the provider sees the end of the operation.
func (w *world) end() {
	if w.operation == RemovingNodes {
		w.ended = w.clock
	}
	w.operation = Idle
}

// replaceOne makes an upgrade remove a worker, or add it again as another machine, possibly under the same name. It reports
// whether the upgrade goes on.
func (w *world) replaceOne() bool {
	if len(w.away) > 0 {
		n := w.away[0]
		w.renew(n, w.clock)
		w.nodes, w.away = append(w.nodes, n), w.away[1:]
		w.say("%s is back", n.Name)
		return true
	}
	running := w.running()
	if w.replaced >= len(running) || !rapid.Bool().Draw(w.t, "replaces nodes") {
		w.replaced = 0
		return false
	}
	n := running[0]
	w.replaced++
	w.say("%s is away", n.Name)
	w.away = append(w.away, n)
	w.nodes = without(w.nodes, n)
	return true
}

// renew makes the node another machine.
func (w *world) renew(n *kubeNode, created time.Time) {
	id, name := cmp.Or(n.ProviderID, n.cloudID), n.Name
	if rapid.Bool().Draw(w.t, "another providerID") {
		id = "cloud://" + w.name("i")
	}
	if rapid.Bool().Draw(w.t, "another name") {
		name = w.name("n")
	}
	*n = *w.newNode(name, id, created)
}

// fails ends the operation in flight at the portal, possibly after a part of the work.
func (w *world) fails() {
	if w.trouble.kind == "half" {
		for range rapid.IntRange(0, w.size-w.target).Draw(w.t, "removed") {
			w.removeNode()
		}
	}
	w.say("portal fails: %d workers", w.size)
	if w.lost {
		return // nothing reports it to the provider
	}
	w.recorded, w.uncertain = max(w.from, w.target), true
	w.end()
	w.backOff()
}

// presumedGone reports whether the portal runs a node that no Machine holds and that has not been Ready for long. While the size is
// uncertain such a node is presumed to be gone (doc.go), and another one may be removed in its place.
func (w *world) presumedGone() bool {
	return slices.ContainsFunc(w.running(), func(n *kubeNode) bool {
		held := slices.ContainsFunc(w.machines, func(m *model) bool { return m.Claim.UID == n.UID })
		return !n.Ready && !held && w.clock.Sub(n.NotReadySince) >= leftOverTime
	})
}
