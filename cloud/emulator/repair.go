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
		cl.heal()
	case j != nil && j.repaired != nil && !j.isRepaired():
		close(j.repaired) // the job ends the operation
	default:
		return fmt.Errorf("repair cluster %s: it is %s, and no job of it is stuck", clusterID, cl.State)
	}
	p.record(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: "repaired", Detail: fmt.Sprintf("by the portal's operator, size=%d", cl.Size)})
	return nil
}

// heal ends the state Alert. The size is the number of the nodes from then on.
func (cl *cluster) heal() {
	cl.Size, cl.State = len(cl.workers()), ClusterRunning
	cl.reserved = cl.Size
}

// scan sets the state Alert, and ends it (Traits.ScanInterval).
func (p *Portal) scan() (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cl := range p.clusters {
		stopped := slices.ContainsFunc(cl.nodes, func(n *node) bool { return !n.Gone && (!n.up || n.Stopped) })
		sound := !stopped && len(cl.workers()) >= cl.Size
		before := cl.State
		switch {
		case cl.JobID != "":
		case before == ClusterRunning && !sound:
			cl.State = ClusterAlert
		case before == ClusterAlert && sound:
			cl.heal()
		}
		if cl.State != before {
			p.record(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, From: string(before), To: string(cl.State), Detail: "by a scan"})
		}
	}
	return true
}

// StopMachine ends the machine of an instance without removing it, as the failure of a host does. StartMachine starts it again.
func (p *Portal) StopMachine(ctx context.Context, instanceID string) error {
	return p.setStopped(ctx, instanceID, true)
}

// StartMachine starts a machine that StopMachine has ended.
func (p *Portal) StartMachine(ctx context.Context, instanceID string) error {
	return p.setStopped(ctx, instanceID, false)
}

func (p *Portal) setStopped(ctx context.Context, instanceID string, stopped bool) error {
	cl, name := p.stop(instanceID, stopped)
	if cl == "" {
		return fmt.Errorf("stop or start instance %s: there is no such instance", instanceID)
	}
	if stopper, ok := p.opts.Workloads.(Stopper); ok {
		return stopper.Stop(ctx, cl, name, stopped)
	}
	return nil
}

// stop sets the state of a machine, and returns its cluster's id and its name.
func (p *Portal) stop(instanceID string, stopped bool) (clusterID, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cl := range p.clusters {
		for _, n := range cl.nodes {
			if n.ID != instanceID || n.Gone {
				continue
			}
			n.Stopped = stopped
			p.record(LogEntry{Object: "node", ID: n.Name, Account: cl.Account, To: map[bool]string{true: "stopped", false: "started"}[stopped], Detail: cl.ID})
			return cl.ID, n.Name
		}
	}
	return "", ""
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
