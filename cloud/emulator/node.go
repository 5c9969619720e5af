// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// VictimOrder decides which workers go first when a cluster shrinks.
type VictimOrder string

// The victim orders.
const (
	VictimsNewest VictimOrder = "newest"
	VictimsOldest VictimOrder = "oldest"
	VictimsRandom VictimOrder = "random" // the same for the same seed
)

var victimOrders = []VictimOrder{VictimsNewest, VictimsOldest, VictimsRandom}

// ControlMarks is what the Nodes of control nodes carry: node-role.kubernetes.io/control-plane as a label, as a taint with effect
// NoSchedule, both or neither.
type ControlMarks string

// The marks.
const (
	MarkedBoth  ControlMarks = "both"
	MarkedLabel ControlMarks = "label"
	MarkedTaint ControlMarks = "taint"
	MarkedNone  ControlMarks = "none"
)

var controlMarks = []ControlMarks{MarkedBoth, MarkedLabel, MarkedTaint, MarkedNone}

// node is a Node and its phase: joining, up, leaving.
type node struct {
	Node
	up      bool
	leaving bool
	removal *Removal // how its machine was removed. Nil: it was not removed, or it is not known how
}

// controls are a cluster's control nodes, oldest first.
func (cl *cluster) controls() []*node {
	return slices.DeleteFunc(slices.Clone(cl.nodes), func(n *node) bool { return !n.ControlPlane || n.leaving })
}

// workers of a cluster, oldest first.
func (cl *cluster) workers() []*node {
	return slices.DeleteFunc(slices.Clone(cl.nodes), func(n *node) bool { return n.ControlPlane || n.leaving || n.Gone })
}

// present returns the nodes that should exist, oldest first, with what is left of others.
func (cl *cluster) present() []Node {
	out := []Node{}
	for _, n := range cl.nodes {
		if !n.leaving || n.Gone {
			out = append(out, n.Node)
		}
	}
	return out
}

// addNode adds a node that applyNodes then starts. Callers hold mu.
func (p *Portal) addNode(cl *cluster, controlPlane bool) {
	p.addNodeNamed(cl, p.nodeName(cl, controlPlane), controlPlane)
}

func (p *Portal) addNodeNamed(cl *cluster, name string, controlPlane bool) *node {
	n := &node{Node: Node{Name: name, ID: p.newID("instance"), ControlPlane: controlPlane, Version: cl.Version}}
	if p.opts.ProviderIDs {
		n.ProviderID = fmt.Sprintf("portal:///%s/%s", cl.ZoneID, n.ID)
	}
	// A Node object that was left behind under this name gives way.
	cl.nodes = slices.DeleteFunc(cl.nodes, func(old *node) bool { return old.Gone && old.Name == name })
	cl.nodes = append(cl.nodes, n)
	return n
}

// nodeName is <cluster>-c-<n> for control nodes and <cluster>-w-<suffix> for workers. Both are DNS labels.
func (p *Portal) nodeName(cl *cluster, controlPlane bool) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	prefix := cl.Name[:min(len(cl.Name), 50)]
	taken := map[string]bool{}
	for _, n := range cl.nodes {
		taken[n.Name] = taken[n.Name] || !n.Gone
	}
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s-c-%d", prefix, i)
		if !controlPlane && p.opts.ReuseNodeNames {
			name = fmt.Sprintf("%s-w-%d", prefix, i)
		} else if !controlPlane {
			var suffix [5]byte
			for j := range suffix {
				suffix[j] = alphabet[cl.rand.IntN(len(alphabet))]
			}
			name = fmt.Sprintf("%s-w-%s", prefix, suffix[:])
		}
		if !taken[name] {
			return name
		}
	}
}

// resize orders workers, or returns those that have to leave. Callers hold mu.
func (p *Portal) resize(cl *cluster, size int) []*node {
	workers := cl.workers()
	for range size - len(workers) {
		p.addNode(cl, false)
	}
	return p.victims(cl, workers, len(workers)-size)
}

// leave has the nodes go with the next applyNodes. keepObjects leaves their Node objects behind. Callers hold mu.
func leave(nodes []*node, keepObjects bool) {
	for _, n := range nodes {
		n.leaving, n.up, n.Gone = true, false, keepObjects
	}
}

// VictimOrder returns the order in which a scale-down removes workers.
func (p *Portal) VictimOrder() VictimOrder {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.removals
}

// SetVictimOrder changes the order in which later scale-downs remove workers.
func (p *Portal) SetVictimOrder(order VictimOrder) error {
	if order == "" {
		return fmt.Errorf("victim order: want one of %q", victimOrders)
	}
	if err := known("victim order", order, victimOrders); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record(LogEntry{Object: "portal", ID: "victim order", From: string(p.removals), To: string(order)})
	p.removals = order
	return nil
}

// victims picks n of the workers, which come oldest first.
func (p *Portal) victims(cl *cluster, workers []*node, n int) []*node {
	if n <= 0 {
		return nil
	}
	workers = slices.Clone(workers)
	switch p.removals {
	case VictimsNewest:
		slices.Reverse(workers)
	case VictimsRandom:
		cl.rand.Shuffle(len(workers), func(i, j int) { workers[i], workers[j] = workers[j], workers[i] })
	}
	return workers[:n]
}

// applyNodes has the nodes that are ordered come up and those that leave go, which takes at least as long as given.
func (p *Portal) applyNodes(ctx context.Context, cl *cluster, takes time.Duration) error {
	p.mu.Lock()
	want := Workload{
		ID: cl.ID, Name: cl.Name, Version: cl.serverVersion, Nodes: cl.present(),
		ControlMarks: p.opts.ControlMarks, KubeconfigLifetime: p.opts.KubeconfigLifetime, BarePodsStay: p.opts.Traits.BarePodsStay,
	}
	p.mu.Unlock()
	err := atLeast(ctx, takes, func() error {
		removals, err := p.applyWorkload(ctx, want)
		p.recordRemovals(cl, removals)
		return err
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range cl.nodes {
		switch {
		case n.leaving:
			p.record(cl.removalEntry(n))
			n.leaving = !n.Gone // a Node object that stays behind stays in the records
		case !n.up && !n.Gone:
			n.up = true
			p.record(LogEntry{Object: "node", ID: n.Name, Account: cl.Account, To: "added", Detail: cl.ID})
		}
	}
	cl.nodes = slices.DeleteFunc(cl.nodes, func(n *node) bool { return n.leaving })
	return nil
}

// recordRemovals keeps what is known of machines that were removed until the request log says that they are. A job that fails in
// between leaves that to the next one.
func (p *Portal) recordRemovals(cl *cluster, removals []Removal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range removals {
		if j := p.jobsByID[cl.JobID]; j != nil {
			r.By = j.Kind
		}
		for _, n := range cl.nodes {
			if n.ID == r.Machine && n.removal == nil {
				n.removal = &r
			}
		}
	}
}

// removalEntry is the request log's entry of a machine that is gone.
func (cl *cluster) removalEntry(n *node) LogEntry {
	e := LogEntry{Object: "node", ID: n.Name, Account: cl.Account, To: "removed", Detail: cl.ID, Removal: n.removal}
	if n.Gone {
		e.Detail += ", its Node object stays"
	}
	if n.removal != nil {
		e.Detail += ": " + n.removal.String()
	}
	return e
}

// atLeast does something that takes at least as long as given.
func atLeast(ctx context.Context, takes time.Duration, do func() error) error {
	start := time.Now()
	if err := do(); err != nil {
		return err
	}
	return sleep(ctx, takes-time.Since(start))
}
