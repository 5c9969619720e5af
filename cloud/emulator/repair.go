// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Repair does what the portal's operator does for a cluster that cannot be changed any more. A cluster in Alert is Running again, and its
// size is the number of its nodes. A stuck job fails. The specification has no request for it: a person asks the portal's support.
func (p *Portal) Repair(clusterID string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.clusters, func(cl *cluster) bool { return cl.ID == clusterID })
	if i < 0 {
		return fmt.Errorf("repair cluster %s: there is no such cluster", clusterID)
	}
	cl := p.clusters[i]
	j := p.jobsByID[cl.JobID]
	switch {
	case cl.State == ClusterAlert:
		cl.Size, cl.State = len(cl.workers()), ClusterRunning
		cl.reserved = cl.Size
	case j != nil && j.repaired != nil && !j.isRepaired():
		close(j.repaired) // the job ends the operation
	default:
		return fmt.Errorf("repair cluster %s: it is %s, and no job of it is stuck", clusterID, cl.State)
	}
	p.record(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: "repaired", Detail: fmt.Sprintf("by the portal's operator, size=%d", cl.Size)})
	return nil
}

// drainNode drains a node that is to be removed or upgraded. Without Kubernetes servers there are no Pods to evict.
func (p *Portal) drainNode(ctx context.Context, cl *cluster, n *node, atMost time.Duration) error {
	drainer, ok := p.opts.Workloads.(Drainer)
	if !ok {
		return nil
	}
	err := drainer.Drain(ctx, cl.ID, n.Name, atMost)
	e := LogEntry{Object: "node", ID: n.Name, Account: cl.Account, To: "drained", Detail: cl.ID}
	if err != nil {
		e.To, e.Detail = "not drained", cl.ID+": "+err.Error()
		err = &jobError{Code: CodeInternalError, Message: fmt.Sprintf("node %s could not be drained in %s: %v", n.Name, atMost, err)}
	}
	p.record(e)
	return err
}

// cordon makes a Node unschedulable, or schedulable.
func (p *Portal) cordon(ctx context.Context, cl *cluster, node string, unschedulable bool) error {
	drainer, ok := p.opts.Workloads.(Drainer)
	if !ok {
		return nil
	}
	return drainer.Cordon(ctx, cl.ID, node, unschedulable)
}
