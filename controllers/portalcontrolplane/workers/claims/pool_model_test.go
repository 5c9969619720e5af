// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"

	"pgregory.net/rapid"
)

// poolModel is a MachinePool with its PortalMachinePool.
type poolModel struct {
	replicas int
	deleting bool
	list     []string // of the PortalMachinePool: the provider writes it
	gone     bool     // the PortalMachinePool is
	copied   []string // the list in the MachinePool, which core copies
	refs     []string // the names in the nodeRefs of the MachinePool
	uids     []string // of these Nodes
	read     *poolModel
	away     bool // core's MachinePool controller is not running, until the next time that everything has to settle
	paused   bool // by the provider, for an upgrade
}

// beginPool draws whether the cluster has a pool from the start.
func (w *world) beginPool() {
	if rapid.Bool().Draw(w.t, "pool") {
		w.pool = &poolModel{replicas: rapid.IntRange(0, 3).Draw(w.t, "replicas of the pool")}
	}
}

// desired is the sum that the portal is asked for.
func (w *world) desired() int { return w.machinesWanted() + w.poolWanted() }

func (w *world) poolWanted() int {
	if w.pool == nil || w.pool.deleting {
		return 0
	}
	return w.pool.replicas
}

// poolView is what the provider sees of the pool.
func (w *world) poolView() *Pool {
	if w.pool == nil || w.pool.gone {
		return nil
	}
	view := &Pool{Replicas: w.pool.replicas, Deleting: w.pool.deleting, List: slices.Clone(w.pool.list), Copied: slices.Clone(w.pool.copied), Known: slices.Clone(w.pool.refs)}
	if w.pool.paused {
		view.Known = nil
	}
	return view
}

// pausePool has core pause the pool before an upgrade, if the portal sets providerIDs. It reports false if core is away.
func (w *world) pausePool() bool {
	if w.pool == nil || !w.ids {
		return true
	}
	if w.pool.away {
		return false
	}
	if w.pool.read != nil {
		w.reconcilePool() // core ends the pass that it is in
	}
	if w.pool != nil {
		w.pool.paused = true
	}
	return true
}

// forgetNodes has the provider remove nodeRefs that core must not go by: all at the end of a pause, else those whose Node is gone. A pass of
// core is over before the portal has made a new node, so core does not go by what it read before.
func (w *world) forgetNodes() {
	p := w.pool
	if p == nil || !w.ids || p.paused && w.operation == ReplacingNodes {
		return
	}
	for i := len(p.uids) - 1; i >= 0; i-- {
		if p.paused || w.node(p.uids[i]) == nil {
			p.refs, p.uids = slices.Delete(slices.Clone(p.refs), i, i+1), slices.Delete(slices.Clone(p.uids), i, i+1)
		}
	}
	if p.read != nil {
		p.read.refs = p.refs
	}
	p.paused = false
}

// actOnPool is what a user does with the pool. Core may be away for some changes.
func (w *world) actOnPool(d *deployment) {
	if w.pool != nil && rapid.IntRange(0, 3).Draw(w.t, "core is away") == 0 {
		w.reconcilePool() // it ends the pass that it is in
		if w.pool == nil {
			return
		}
		w.pool.away = true
		w.say("core is away")
		for range rapid.IntRange(0, 2).Draw(w.t, "changes") {
			w.changePool()
			for range rapid.IntRange(0, 12).Draw(w.t, "rounds") {
				w.round()
			}
			w.setReplicas(d)
			w.say("%s: replicas %d", d.name, d.replicas)
		}
	}
	w.changePool()
}

// changePool changes the replicas, deletes the pool or creates one.
func (w *world) changePool() {
	switch {
	case w.pool == nil:
		w.pool = &poolModel{replicas: rapid.IntRange(0, 3).Draw(w.t, "replicas of the pool")}
		w.say("new pool: replicas %d", w.pool.replicas)
	case !w.pool.deleting && rapid.IntRange(0, 4).Draw(w.t, "delete the pool") == 0:
		w.pool.deleting = true
		w.say("user deletes the pool")
	case !w.pool.deleting:
		w.pool.replicas = rapid.IntRange(0, 4).Draw(w.t, "replicas of the pool")
		w.say("pool: replicas %d", w.pool.replicas)
	}
}

// movePool drops the status, and the deletion.
func (w *world) movePool() {
	switch {
	case w.pool == nil:
	case w.pool.gone:
		w.pool = nil
	default:
		w.pool.deleting, w.pool.refs, w.pool.uids, w.pool.read = false, nil, nil, nil
	}
}

// carryOutList writes the list. An ID leaves it only if no Node has it, unless core does not read the list any more.
func (w *world) carryOutList(list []string) bool {
	if w.pool == nil || w.pool.gone {
		return false
	}
	for _, id := range list {
		if !slices.Contains(w.pool.list, id) && w.ids && SetByProvider("c1", id) {
			w.fail("the list names %s, and the portal gives the Node another providerID", id)
		}
	}
	for _, id := range w.pool.list {
		if !slices.Contains(list, id) && !w.pool.deleting && w.provided(id) != nil {
			w.fail("%s leaves the list, and its Node exists", id)
		}
	}
	w.pool.list = list
	return true
}

// reconcilePool is one pass of core's MachinePool controller, or the end of one that read the MachinePool earlier. In the same
// step, the provider's controller removes the finalizer of the PortalMachinePool.
func (w *world) reconcilePool() {
	p := w.pool
	if p == nil || p.away || p.paused {
		return
	}
	if p.deleting {
		p.read = nil
		p.gone = p.gone || len(p.list) == 0
		if p.gone {
			w.retire(p.refs, p.copied)
			w.say("the pool is gone")
			w.pool = nil
		}
		return
	}
	if p.read == nil {
		w.readPool()
	}
	seen := p.read
	p.read, p.copied = nil, seen.list
	if len(seen.list) == 0 && seen.replicas != 0 {
		return
	}
	w.retire(seen.refs, seen.list)
	var refs, uids []string
	for _, n := range w.nodes {
		if slices.Contains(seen.list, n.ProviderID) {
			refs, uids = append(refs, n.Name), append(uids, n.UID)
		}
	}
	if len(refs) > 0 || len(seen.list) == 0 {
		p.refs, p.uids = refs, uids
	}
}

// readPool begins a pass of the MachinePool controller.
func (w *world) readPool() {
	w.pool.read = &poolModel{replicas: w.pool.replicas, list: slices.Clone(w.pool.list), refs: w.pool.refs}
}

// retire deletes the Nodes of these names whose IDs are not in the list.
func (w *world) retire(names, list []string) {
	for _, name := range names {
		n := w.named(name)
		if n == nil || n.ProviderID == "" || slices.Contains(list, n.ProviderID) {
			continue
		}
		if n.running {
			w.fail("core deletes Node %s of a machine that runs, for the pool", name)
		}
		w.nodes = without(w.nodes, n)
	}
}

// poolQuiet reports whether the pool has as many nodes as it wants, all of them without a Machine.
func (w *world) poolQuiet(held map[string]bool) bool {
	if w.pool == nil || w.pool.deleting {
		return w.pool == nil
	}
	members := filter(w.running(), func(n *kubeNode) bool { return slices.Contains(w.pool.list, n.ProviderID) && !held[n.Name] })
	return len(members) == w.pool.replicas
}

// judgeList checks that the list of a settled pool contains no IDs of Nodes that are gone.
func (w *world) judgeList() {
	if w.pool == nil {
		return
	}
	stale := slices.DeleteFunc(slices.Clone(w.pool.list), func(id string) bool { return w.provided(id) != nil })
	w.round()
	for _, id := range stale {
		if slices.Contains(w.pool.list, id) {
			w.dump()
			w.fail("%s stays in the list, and its Node is gone", id)
		}
	}
}
