// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"

	"pgregory.net/rapid"
)

// poolModel is the MachinePool of the cluster, and its PortalMachinePool.
type poolModel struct {
	replicas int
	deleting bool
	list     []string // of the PortalMachinePool
	copied   []string // of the MachinePool, as core has read it last
	nodeRefs []string // names of Nodes that core knows
}

// drawPool may give the cluster a pool.
func drawPool(t *rapid.T) *poolModel {
	if !rapid.Bool().Draw(t, "pool") {
		return nil
	}
	return &poolModel{replicas: rapid.IntRange(0, 4).Draw(t, "pool replicas")}
}

// actOnPool is what a user does to the pool.
func (w *world) actOnPool() {
	switch {
	case w.pool == nil:
		if w.pool = drawPool(w.t); w.pool != nil {
			w.say("pool is created, replicas %d", w.pool.replicas)
		}
	case rapid.IntRange(0, 3).Draw(w.t, "delete the pool") == 0:
		w.pool.deleting = true
		w.say("pool is deleted")
	default:
		w.pool.replicas = rapid.IntRange(0, 5).Draw(w.t, "pool replicas")
		w.say("pool: replicas %d", w.pool.replicas)
	}
}

// poolReplicas is how many nodes the pool asks for.
func (w *world) poolReplicas() int {
	if w.pool == nil || w.pool.deleting {
		return 0
	}
	return w.pool.replicas
}

func (w *world) poolView() *Pool {
	if w.pool == nil {
		return nil
	}
	return &Pool{Replicas: w.pool.replicas, Deleting: w.pool.deleting, List: slices.Clone(w.pool.list)}
}

func (w *world) carryOutPool(move Move) bool {
	if w.pool == nil {
		return false
	}
	id := move.Node.ProviderID
	w.pool.list = slices.DeleteFunc(slices.Clone(w.pool.list), func(other string) bool { return other == id })
	if move.Kind == Enlist {
		w.pool.list = append(w.pool.list, id)
	}
	return true
}

// reconcilePool is one pass of core's MachinePool controller: it deletes the Nodes that it knows and whose ID left the list. The list of a
// MachinePool that is being deleted is not read any more.
func (w *world) reconcilePool() {
	p := w.pool
	if p == nil {
		return
	}
	if !p.deleting {
		p.copied = slices.Clone(p.list)
	}
	if !p.deleting || len(p.list) == 0 {
		for _, name := range p.nodeRefs {
			i := slices.IndexFunc(w.nodes, func(n *kubeNode) bool { return n.Name == name })
			if i < 0 || w.nodes[i].ProviderID == "" || slices.Contains(p.copied, w.nodes[i].ProviderID) {
				continue
			}
			if w.nodes[i].running {
				w.fail("core deletes Node %s of a machine that runs, for the pool", name)
			}
			w.nodes = slices.Delete(w.nodes, i, i+1)
		}
	}
	if p.deleting {
		if len(p.list) == 0 {
			w.say("pool is gone")
			w.pool = nil
		}
		return
	}
	p.nodeRefs = nil
	for _, n := range w.nodes {
		if slices.Contains(p.copied, n.ProviderID) {
			p.nodeRefs = append(p.nodeRefs, n.Name)
		}
	}
}

// poolQuiet reports whether as many nodes as the pool asks for are in its list and of no Machine.
func (w *world) poolQuiet() bool {
	if w.pool == nil {
		return true
	}
	members := 0
	for _, n := range w.running() {
		held := slices.ContainsFunc(w.machines, func(m *model) bool { return m.ClaimNodeUID == n.UID })
		if slices.Contains(w.pool.list, n.ProviderID) && !held {
			members++
		}
	}
	return !w.pool.deleting && members == w.pool.replicas
}
