// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// The provider's requests to the portal.

// scale asks the portal. It may refuse, or its answer may be lost, whether or not it acts on the request.
func (w *world) scale(p *pass) {
	w.say("scale %d → %d", w.size, p.Size)
	w.asked = w.clock
	if w.operation != Idle && !w.lost {
		w.fail("asked to scale while an operation runs")
	}
	w.judgeRequest(p)
	if w.operation == Idle && !w.uncertain {
		w.judgeNamed(p.Size)
	}
	busy := w.operation != Idle && !w.unheard && w.target != w.size
	switch {
	case w.lost && busy:
		return // RESOURCE_BUSY
	case p.Size < w.size && w.struck("refuse"):
		w.say("refused")
		w.operation, w.lost, w.unheard = Idle, false, false
		w.backOff()
		return
	case w.struck("lose"):
		w.say("the answer is lost")
		w.lost, w.recorded, w.uncertain, w.before, w.compare = true, max(w.size, p.Size), true, p.Before, false
		w.batch, w.older = fmt.Sprintf("lost%d", w.scales), p.Before
		w.operation = direction(p.Size, w.size)
		w.target = p.Size
		if rapid.Bool().Draw(w.t, "not heard") {
			w.unheard = true
		}
		return
	}
	w.scales++
	if !w.lost { // some of them may be gone since
		w.before = p.Before
	}
	w.batch, w.older = fmt.Sprintf("op%d", w.scales), w.before
	w.lost, w.unheard = false, false
	w.target, w.recorded, w.uncertain, w.compare = p.Size, p.Size, false, false
	w.from = w.size
	w.operation = direction(p.Size, w.size)
}

func direction(to, from int) Activity {
	if to < from {
		return RemovingNodes
	}
	return AddingNodes
}

// judgeRequest checks that the request asks for the sum of the replicas, or for a number on the way down to it. While the order of
// removal is a guess, it removes one node, if one stays.
func (w *world) judgeRequest(p *pass) {
	most := w.size - 1
	if p.view.SizeUncertain {
		most = w.size // to ask for what the portal runs changes nothing
	}
	drained := len(filter(w.running(), func(n *kubeNode) bool { return n.drained() && !n.busy }))
	if w.unasked() && p.view.Unasked && w.size-p.Size > drained {
		w.fail("asked for %d of %d workers, of which %d are drained, while no object asks for any", p.Size, w.size, drained)
	}
	if sum := p.view.Desired; p.Size != sum && (p.Size < sum || p.Size > most) {
		w.fail("asked for %d of %d workers while %d are desired", p.Size, w.size, sum)
	}
	// While the size is uncertain, it is unknown which of the nodes that are not Ready are gone.
	unclear := len(p.view.Nodes) - len(keep(p.view.Nodes, func(n Node) bool { return n.Ready }))
	if !p.view.SizeUncertain {
		unclear = 0
	}
	guess := max(1, unclear)
	if w.presumedGone() {
		guess = 1 + unclear // the portal still runs nodes that the plan does not count
	}
	if p.view.OrderAssumed && p.Size > 0 && w.size-p.Size > guess {
		w.dump()
		w.fail("asked for %d of %d workers, and the order of removal is a guess", p.Size, w.size)
	}
}

// judgeNamed checks that no Machine names a node that the portal removes next.
func (w *world) judgeNamed(size int) {
	line := w.running()
	if w.order == removal.Newest {
		slices.Reverse(line)
	}
	count := len(line) - size
	if count <= 0 || size > 0 && (!w.orderKnown() || line[count-1].job == line[count].job) {
		return
	}
	for _, n := range line[:count] {
		for _, m := range w.machines {
			if m.NodeRef == n.Name || m.Claim.UID == n.UID && !IsReleased(m.Claim.ProviderID) {
				w.dump()
				w.fail("asked for %d workers, so %s goes, and Machine %s names it", size, n.Name, m.Name)
			}
		}
	}
}

// struck reports whether the trouble of that kind strikes now.
func (w *world) struck(kind string) bool {
	if w.trouble.kind != kind || w.trouble.left == 0 {
		return false
	}
	w.trouble.left--
	return true
}

// backOff keeps the provider from asking again at once.
func (w *world) backOff() {
	w.pause = min(max(2*w.pause, 30*time.Second), 10*time.Minute)
	w.retry = w.clock.Add(w.pause)
}

// evict is one step of the provider's own drain.
func (w *world) evict(n *kubeNode) {
	switch {
	case n.DrainStarted.IsZero() || !n.Cordoned:
		n.Cordoned, n.DrainStarted, n.Drained = true, w.clock, time.Time{}
	case n.running && n.ruler != "" && n.DrainRules != rulesOf(n.ruler):
		w.fail("%s, which %s held last, is drained by the rules %q", n.Name, n.ruler, n.DrainRules)
	case n.busy && n.blocked:
	case n.busy:
		n.busy = false
	default:
		n.DrainStarted, n.Drained = time.Time{}, w.clock
	}
}

// rulesOf returns what the Machines of a deployment say about the drains of their nodes.
func rulesOf(deployment string) string { return "of " + deployment }
