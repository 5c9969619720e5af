// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// claim is a Machine with its state and its node.
type claim struct {
	Machine
	want  Machine // as it should be
	state state
	at    *worker // nil if it has no node, or its node is gone
	why   reasons // for what differs
}

// mismatched reports whether the Machine gets no node because its template asks for other workers than the portal cluster has.
func (c *claim) mismatched() bool { return c.TemplateMismatch && c.state == stateUnbound }

// worker is a Node with the claims on it.
type worker struct {
	Node
	want      Node     // as it should be
	why       reasons  // for what differs
	live      []*claim // of Machines that stay
	departing []*claim // of Machines that are being deleted, and were not released
	// leaving reports that the node is among those that are removed next.
	leaving bool
	// batchNumber is the place of its batch among all, from 1, the oldest first.
	batchNumber int
	// instead reports that the node is drained because the portal may remove it instead of one that leaves.
	instead bool
	// taken reports that a Machine gets the node in this plan.
	taken bool
	// pooled reports that the pool's list names the node.
	pooled bool
}

// free reports whether no Machine claims the node.
func (n *worker) free() bool { return len(n.live)+len(n.departing) == 0 && !n.taken }

// holder returns the one Machine that stays and holds the node alone, or nil.
func (n *worker) holder() *claim {
	if len(n.live) != 1 || len(n.departing) > 0 {
		return nil
	}
	return n.live[0]
}

// drainedByCore reports whether core drains the node, or has drained it.
func (n *worker) drainedByCore() bool {
	return slices.ContainsFunc(n.departing, func(c *claim) bool { return c.state == stateDraining || c.state == stateDrained })
}

// inUse reports whether a Machine that stays is on the node.
func (n *worker) inUse() bool { return len(n.live) > 0 }

// planner makes one plan. It holds the sorted view and the plan so far.
type planner struct {
	View
	claims  []*claim  // older Machines first, ties by name
	nodes   []*worker // all of them, as in the view
	workers []*worker // the nodes whose machines exist, older first, ties by name
	line    []*worker // the workers in the order in which the portal is expected to remove them, whether they may go or not
	list    []string  // of the pool, as it should be
	// leaving are the nodes that are removed next, in the expected order of removal.
	leaving []*worker
	// instead are the nodes that the portal may remove instead, and that are drained too.
	instead []*worker
	// partial reports that more nodes are surplus than leave: live Machines need them, or they may not go (View.Adopted, View.DrainPossible).
	partial bool
	// surplus is the number of workers to remove.
	surplus int
	plan    Plan
}

// graceTime is how long a Node may stay Ready after its machine was removed: Kubernetes waits 50 seconds for its kubelet. Until then, a scale-down
// that has ended counts as going on.
const graceTime = time.Minute

// read sorts the view and finds the node of each claim.
func read(v View) *planner {
	if v.MayResend && v.Activity == AddingNodes && v.Desired < v.Target {
		v.Activity = Idle // nodes that the portal adds and that are not desired any more make no difference
	}
	p := &planner{View: v}
	if unclear := p.SizeUncertain || p.Size < len(p.Nodes); p.Activity == Idle && unclear && !p.hasElapsed(p.Ended, graceTime) {
		p.Activity, p.Target = RemovingNodes, 0 // nodes that are gone may be Ready still
	}
	if v.Pool != nil {
		p.list = slices.Clone(v.Pool.List)
	}
	at := map[string]*worker{}
	for _, n := range v.Nodes {
		p.nodes = append(p.nodes, &worker{Node: n, want: n, pooled: v.Pool.lists(v.ClusterID, n)})
	}
	p.plan.Present = slices.SortedFunc(slices.Values(p.present()), func(a, b Node) int { return older(a.Created, b.Created, a.Name, b.Name) })
	for _, n := range p.plan.Present {
		at[n.UID] = p.nodeNamed(n.Name)
		p.workers = append(p.workers, at[n.UID])
	}
	p.noteBatches()
	p.readMachines(at)
	p.line = p.removalOrder()
	if p.Unasked {
		p.Desired = max(p.Desired, p.unaskedStay())
	}
	p.plan.Desired, p.plan.Counted = p.Desired, min(max(p.Size, p.readyCount()), max(len(p.workers), p.readyCount()))
	p.plan.Before = Snapshot(keep(p.plan.Present, func(n Node) bool { return n.Ready || !p.SizeUncertain || p.existedBefore(n) }))
	return p
}

// readMachines finds the node of each Machine's claim. at has the workers by their UIDs.
func (p *planner) readMachines(at map[string]*worker) {
	for _, m := range p.Machines {
		c := &claim{Machine: m, want: m, at: at[m.Claim.UID]}
		if IsReleased(m.Claim.ProviderID) {
			c.at = nil
		}
		c.state = m.state(c.at != nil)
		switch {
		case c.at == nil:
		case m.Deleting:
			c.at.departing = append(c.at.departing, c)
		default:
			c.at.live = append(c.at.live, c)
		}
		p.claims = append(p.claims, c)
	}
	slices.SortFunc(p.claims, func(a, b *claim) int { return older(a.Created, b.Created, a.Name, b.Name) })
}

// noteBatches notes on the nodes which operation made them, and numbers the batches.
func (p *planner) noteBatches() {
	for _, n := range p.workers {
		if n.BatchNoted != n.Batch {
			n.want.BatchNoted = n.Batch
			n.why.add("operation %s made it", n.Batch)
		}
	}
	numbers := removal.Batches(Snapshot(p.plan.Present))
	for _, n := range p.workers {
		n.batchNumber = numbers[n.UID]
	}
}

// unaskedStay returns how many workers stay if no object asks for any: all but the drained ones that the portal removes before any other.
func (p *planner) unaskedStay() int {
	drained := slices.IndexFunc(p.line, func(n *worker) bool { return !n.drained() })
	switch {
	case drained < 0:
		return 0
	case p.Order == removal.Random:
		return len(p.line)
	}
	for drained > 0 && p.alike(p.line[drained-1], p.line[drained]) {
		drained--
	}
	return len(p.line) - drained
}

// present drops Nodes whose machine appears to be gone. Without a cloud controller, a Node object outlives its machine. If the
// portal is at rest and there are N more Nodes than the size, and no more than N are not Ready, these are gone. If more are not
// Ready, those of them are gone that have no Machine, and are drained or have not been Ready for long: if one of these still runs, it has no Pods.
// If these are still more than N, all Nodes count. If the size is uncertain, Nodes are gone that have no Machine and have not been Ready
// for long. They count for longer if they may still have to be removed: unless more workers are desired than are Ready, or they were gone before
// the last scale.
func (p *planner) present() []Node {
	held := map[string]bool{}
	for _, m := range p.Machines {
		held[m.Claim.UID] = held[m.Claim.UID] || !IsReleased(m.Claim.ProviderID)
	}
	excess := len(p.Nodes) - p.Size
	switch {
	case p.SizeUncertain:
		return keep(p.Nodes, func(n Node) bool { return held[n.UID] || p.mayExist(n) })
	case p.Size < 0 || p.Activity == AddingNodes || p.Activity == RemovingNodes:
		return p.Nodes
	case len(p.Nodes)-p.readyCount() <= excess:
		return keep(p.Nodes, func(n Node) bool { return n.Ready })
	}
	plausible := keep(p.Nodes, func(n Node) bool { return n.Ready || held[n.UID] || !n.drained() && !p.isLost(n) })
	if len(p.Nodes)-len(plausible) > excess {
		return p.Nodes
	}
	return plausible
}

// mayExist reports whether the machine of a Node that no Machine holds may exist, while the size is uncertain.
func (p *planner) mayExist(n Node) bool {
	if n.Ready || !p.isLost(n) {
		return true
	}
	return p.Desired <= p.readyCount() && p.existedBefore(n) && !p.hasElapsed(n.NotReadySince, goneTime)
}

// goneTime is how long a Node may not be Ready before its machine counts as gone although the portal has not confirmed it.
// Without it, a portal that keeps failing would never be asked again. After half an hour, the portal's jobs count as stuck too.
const goneTime = 30 * time.Minute

// isLost reports whether the Node has not been Ready for so long that it counts as lost.
func (p *planner) isLost(n Node) bool {
	return !n.NotReadySince.IsZero() && p.hasElapsed(n.NotReadySince, leftOverTime)
}

// leftOverTime is how long a Node must not be Ready to count as lost. By then a cloud controller has deleted it, a Node that was
// only briefly away is back, and Kubernetes has evicted its Pods.
const leftOverTime = 5 * time.Minute

// nodeNamed returns the Node of that name, whether its machine appears to be gone or not.
func (p *planner) nodeNamed(name string) *worker {
	for _, n := range p.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// settled reports whether the portal is at rest and its last change is visible, so nodes may be drained.
func (p *planner) settled() bool { return p.Activity == Idle && !p.moreNodesThanSize() }

// withheld reports whether the node must not get a providerID yet (Pool.knows), or gets one from the portal's cloud controller. A providerID can
// never be changed.
func (p *planner) withheld(n *worker) bool {
	return n.Uninitialized || n.ProviderID == "" && p.Pool.knows(p.ClusterID, n.Node)
}

// nodesChanging reports whether the portal is changing which nodes exist, or its last change is not visible yet.
func (p *planner) nodesChanging() bool {
	return p.Activity == ReplacingNodes || p.Activity == RemovingNodes && !p.removalSeen() || p.Activity == Idle && !p.settled()
}

// moreNodesThanSize reports whether more Nodes exist than the portal is known to run. Either some of them are gone, which shows
// soon, or nodes were added outside of the provider, which are counted later (Plan.Counted).
func (p *planner) moreNodesThanSize() bool {
	return p.Size >= 0 && !p.SizeUncertain && len(p.workers) > p.Size
}

// mayRun is the largest number of workers that the portal may run.
func (p *planner) mayRun() int {
	if p.Size < 0 {
		return len(p.workers)
	}
	return max(p.Size, p.readyCount())
}

// usable reports whether a Machine can use the node, because its machine exists.
func (p *planner) usable(n *worker) bool { return n.Ready || n.inUse() || !p.SizeUncertain }

// needed is how many nodes the live Machines and the pool need. Two Machines that share a node, because one takes it over from
// the other, need one.
func (p *planner) needed() (n int) {
	n = p.poolReplicas()
	for _, c := range p.claims {
		if !c.Deleting && !c.mismatched() {
			n++
		}
	}
	for _, worker := range p.workers {
		n -= max(0, len(worker.live)-1)
	}
	return n
}

// claimed reports whether a Machine holds the Node, or shows it.
func (p *planner) claimed(n Node) bool {
	return slices.ContainsFunc(p.claims, func(c *claim) bool {
		return c.NodeRef == n.Name || c.Claim.UID == n.UID && !IsReleased(c.Claim.ProviderID)
	})
}

// older compares by age, ties by name.
func older(aCreated, bCreated time.Time, aName, bName string) int {
	return cmp.Or(aCreated.Compare(bCreated), strings.Compare(aName, bName))
}

func keep(nodes []Node, wanted func(Node) bool) (kept []Node) {
	for _, n := range nodes {
		if wanted(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
