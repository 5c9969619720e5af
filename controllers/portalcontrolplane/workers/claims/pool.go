// SPDX-License-Identifier: Apache-2.0

package claims

import "slices"

// Pool is the MachinePool of a cluster. Nodes that no Machine claims belong to it, up to its replicas.
type Pool struct {
	Replicas int
	// Deleting reports that the MachinePool is being deleted. Its replicas do not count any more.
	Deleting bool
	// Shrinks reports that the cluster autoscaler can remove nodes of the pool: it evicts the Pods of one, and lowers the replicas.
	Shrinks bool
	// List holds the providerIDs in the pool's list. Core deletes the Node object of an ID that leaves the list, so IDs stay in it
	// until their Nodes are gone, even if a Machine has taken the Node over.
	List []string
	// Copied is core's copy of the list. Known are the names of the Nodes that core found by it the last time. Core deletes a
	// Node under such a name if its providerID is not in the copy, even if a Machine has the Node.
	Copied, Known []string
	// Others are the providerIDs of Nodes that are not workers. They exist all the same.
	Others []string
}

// lists reports whether the list names the Node.
func (p *Pool) lists(clusterID string, n Node) bool {
	return p != nil && slices.Contains(p.List, n.idIn(clusterID))
}

// knows reports whether core knows an earlier Node under the name of this one. Core would then delete this Node as soon as it has
// a providerID.
func (p *Pool) knows(clusterID string, n Node) bool {
	if p == nil || !slices.Contains(p.Known, n.Name) {
		return false
	}
	return !slices.Contains(p.Copied, n.idIn(clusterID)) || !p.Deleting && !p.lists(clusterID, n)
}

// poolReplicas is how many nodes the pool needs.
func (v *View) poolReplicas() int {
	if v.Pool == nil || v.Pool.Deleting {
		return 0
	}
	return v.Pool.Replicas
}

// members is how many nodes belong to the pool and stay.
func (p *planner) members() (n int) {
	for _, worker := range p.workers {
		if worker.pooled && !worker.leaving && len(worker.live)+len(worker.departing) == 0 && !worker.taken {
			n++
		}
	}
	return n
}

// reserved reports whether the node belongs to the pool and the pool cannot spare it.
func (p *planner) reserved(n *worker) bool { return n.pooled && p.members() <= p.poolReplicas() }

// pool decides which nodes the pool lists.
func (p *planner) pool() {
	p.addToPool()
	p.removeFromPool()
}

// addToPool gives the pool the nodes that it is missing. It runs after bind, so Machines that wait come first. The pool gets the
// nodes that the portal removes first, so that shrinking the pool rarely removes the node of a Machine. The list names a node
// before the node gets its providerID, because core may still know an earlier Node of that name, and deletes a Node whose ID is
// not in the list.
//
// It also lists the Nodes under names that core knows. They get no providerID before core has copied the list. The list of a pool
// that is being deleted is not copied any more, so they wait until the pool is gone.
func (p *planner) addToPool() {
	for _, n := range p.workers {
		switch {
		case n.pooled && !p.withheld(n):
			p.identify(n, "it belongs to the pool")
		case !n.pooled && !n.Uninitialized && p.Pool.knows(p.ClusterID, n.Node) && !p.Pool.Deleting:
			p.addMember(n)
		}
	}
	for p.plan.Missing = max(0, p.poolReplicas()-p.members()); p.plan.Missing > 0; p.plan.Missing-- {
		n := p.chooseOf(p.line, &claim{})
		if n == nil {
			return
		}
		p.addMember(n)
		p.identify(n, "it belongs to the pool")
	}
}

func (p *planner) addMember(n *worker) {
	if id := n.idIn(p.ClusterID); !slices.Contains(p.list, id) { // a Node of a machine that is gone may have the same
		p.list = append(p.list, id)
	}
	n.pooled = true
}

// removeFromPool removes the IDs of Nodes that are gone from the list, once the portal is at rest: a Node that is being
// replaced may come back under its ID. Core does not read the list of a MachinePool that is being deleted. So the IDs of nodes
// that stay after its surplus is gone, for a Machine or because the portal refuses a cluster without workers, are removed too.
// Then the list is empty and the pool can go. If a Node waits for that, all IDs are removed at once.
func (p *planner) removeFromPool() {
	if p.Pool == nil || p.Activity != Idle {
		return
	}
	waited := slices.ContainsFunc(p.workers, func(n *worker) bool { return p.withheld(n) && !n.Uninitialized })
	ended := p.Pool.Deleting && (p.surplus <= 0 || waited)
	p.list = slices.DeleteFunc(p.list, func(id string) bool {
		exists := slices.Contains(p.Pool.Others, id) || slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.idIn(p.ClusterID) == id })
		return !exists || ended
	})
}
