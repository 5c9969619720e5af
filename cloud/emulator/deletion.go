// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"slices"
	"time"
)

// deleteCluster answers DELETE /kubernetes-clusters/{cluster_id}. Its volumes stay (Kubernetes endpoints 3).
func (p *Portal) deleteCluster(c *call) (answer, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cl, err := p.clusterOf(c)
	if err != nil {
		return answer{}, err
	}
	before := cl.State
	return p.operate(c, cl, ClusterDeleting, "", jobSpec{
		kind: JobDeleteCluster, takes: p.opts.Durations.Delete,
		work: func(ctx context.Context, takes time.Duration) (any, error) {
			if p.opts.Traits.DeletedClusters == DeletedReadable && cl.servedOnce {
				_, _ = p.storeKubeconfig(ctx, cl) // a cluster without one cannot be read later
			}
			err := atLeast(ctx, takes, func() error { return p.deleteWorkload(ctx, cl.ID) })
			if err != nil {
				p.failDeletion(cl, before)
				return nil, err
			}
			p.forget(cl)
			return struct{}{}, nil
		},
		undo: func() { p.failDeletion(cl, before) },
	})
}

// failDeletion ends a deletion whose job fails: the cluster returns to the state before, or the portal deletes it later.
func (p *Portal) failDeletion(cl *cluster, before ClusterState) {
	after := p.opts.Traits.DeletionsCollected
	if after == 0 {
		p.unlock(cl, before)
		return
	}
	p.unlock(cl, ClusterDeleting)
	p.later(after, func() (again bool) { return !p.collect(cl) })
}

// collect finishes a deletion whose job has failed. It returns false if it has to try again.
func (p *Portal) collect(cl *cluster) bool {
	p.mu.Lock()
	waits := cl.JobID == "" && slices.Contains(p.clusters, cl) // no later deletion runs, or has succeeded
	p.mu.Unlock()
	if !waits {
		return true
	}
	if p.deleteWorkload(p.ctx, cl.ID) != nil {
		return false
	}
	p.forget(cl)
	return true
}

// forget removes a cluster's record. What remains of the cluster goes at once, or after Traits.RemainsFor.
func (p *Portal) forget(cl *cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	deleted := cl.State == ClusterDeleting
	p.clusters = slices.DeleteFunc(p.clusters, func(other *cluster) bool { return other == cl })
	if after := p.opts.Traits.NamesReserved; after > 0 && deleted {
		p.reserved[cl.Account+"/"+cl.Name] = time.Now().Add(after)
	}
	if after := p.opts.Traits.RemainsFor; after > 0 && deleted {
		p.remains = append(p.remains, cl)
		p.later(after, func() (again bool) { p.clearRemains(cl); return false })
	} else {
		p.clear(cl)
	}
	p.record(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, From: string(cl.State), To: "deleted"})
}

func (p *Portal) clearRemains(cl *cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remains = slices.DeleteFunc(p.remains, func(other *cluster) bool { return other == cl })
	p.clear(cl)
}

// clear removes the machines of a deleted cluster and its isolated network, and detaches its volumes. Callers hold mu.
func (p *Portal) clear(cl *cluster) {
	for _, n := range cl.nodes {
		p.record(LogEntry{Object: "node", ID: n.Name, Account: cl.Account, To: "removed", Detail: cl.ID})
	}
	p.networks = slices.DeleteFunc(p.networks, func(n *Network) bool { return n.Isolated && n.ID == cl.NetworkID })
	for _, v := range p.volumes {
		if v.ClusterID == cl.ID {
			v.ClusterID = ""
		}
	}
}

// occupants returns the clusters whose machines exist, deleted ones included. Callers hold mu.
func (p *Portal) occupants() []*cluster { return slices.Concat(p.clusters, p.remains) }

// hides reports whether the portal denies that a cluster exists, because the cluster is being deleted.
func (p *Portal) hides(cl *cluster) bool {
	return cl.State == ClusterDeleting && p.opts.Traits.DeletedClusters == DeletedHidden
}

// readableCluster finds the cluster that a call reads, which may be a deleted one. Callers hold mu.
func (p *Portal) readableCluster(c *call) (*cluster, *refusal) {
	cl, err := p.clusterOf(c)
	if err == nil || p.opts.Traits.DeletedClusters != DeletedReadable {
		return cl, err
	}
	for _, deleted := range p.remains {
		if deleted.ID == c.params["cluster_id"] && deleted.Account == c.account {
			return deleted, nil
		}
	}
	return nil, err
}
