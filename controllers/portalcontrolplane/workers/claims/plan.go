// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"time"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// Plan is what to do now. Everything else stays as it is.
type Plan struct {
	// Writes change the objects that are not as they should be, in this order. A pass may be interrupted before and after each.
	Writes []Write
	// Scale asks the portal for Size workers. Why is the reason, for people.
	Scale bool
	Size  int
	Why   string
	// Desired is View.Desired or, if no object asks for workers, how many stay.
	Desired int

	// Reached reports that the portal has done what the lost request asked for, as far as the Nodes show.
	Reached bool

	// Present are the worker nodes whose machines exist, as far as the Nodes show.
	Present []Node

	// SizeCertain reports that the portal runs Desired workers although the size was uncertain: all of them are Ready, and no
	// other Node exists.
	SizeCertain bool

	// Counted is how many workers the portal appears to run: the size, unless more Nodes are Ready or fewer exist. If it differs
	// from the size for long, the portal cluster was scaled outside of the provider.
	Counted int

	// Before are the nodes that are known to exist, to compare a scale with.
	Before []removal.NodeSnapshot

	// OrderObserved reports that the last scale-down was compared with the nodes that it left. Evidence is what is known now, and
	// Undrained are the nodes that it removed although they were not drained. The plan contains nothing else then.
	OrderObserved bool
	Evidence      removal.Evidence
	Undrained     []string
	// NeedsPositions: which node goes depends on the order of nodes that the portal's list of instances may tell apart.
	NeedsPositions bool

	// RequeueAfter is when to decide again if nothing happens before. 0 means that an event wakes the control plane.
	RequeueAfter time.Duration

	// The rest reports what the plan waits for, for conditions.
	Unbound       int      // live Machines without a node
	Missing       int      // nodes that the pool has too few of
	LostNodes     []string // the nodes that live Machines were bound to and that are gone
	Free          int      // nodes without a Machine that stay and are not the pool's
	Draining      []string // Machines whose Node core drains
	DrainingNodes []string // Nodes that the provider drains
	AnyMayGo      bool     // the portal is not asked, because it may remove any of the workers (View.DrainPossible)
	Drained       []string // Nodes that are drained and wait to be removed
	Mismatched    []string // Machines whose template asks for other workers than the portal cluster has
	NotReady      []string // nodes that hold a Machine, or are the pool's, and are not Ready
}

// Decide returns what to do.
func Decide(v View) Plan {
	p := read(v)
	p.plan.Counted = min(max(p.Size, p.readyCount()), max(len(p.workers), p.readyCount()))
	p.plan.Before = Snapshot(keep(p.plan.Present, func(n Node) bool { return n.Ready || !p.SizeUncertain || p.existedBefore(n) }))
	if p.observeOrder() {
		return p.plan // the next pass decides with the new order
	}
	p.plan.Desired = p.Desired
	p.chooseLeaving()
	p.undoAbortedDrains()
	p.moveHeld()
	p.release()
	p.uncordonStaying()
	p.bind()
	p.addToPool()
	p.removeFromPool()
	p.prepareInstead()
	p.protectFromAutoscaler()
	p.writeChanges()
	p.drainFree()
	p.deleteLeftOver()
	p.report()
	p.decideSize()
	return p.plan
}

// observeOrder compares the nodes that a finished scale-down left with those before it, as soon as the expected number exists.
func (p *planner) observeOrder() bool {
	if p.Activity != Idle || !p.ScaledDown || len(p.Before) == 0 || len(p.workers) != p.Size {
		return false
	}
	now := Snapshot(p.plan.Present)
	p.plan.OrderObserved, p.plan.Evidence = true, p.Evidence.Learn(p.Before, now)
	gone, _ := removal.Split(p.Before, now)
	for _, n := range gone {
		if n.HadPods() {
			p.plan.Undrained = append(p.plan.Undrained, n.Name)
		}
	}
	return true
}

func (p *planner) requeueAfter(after time.Duration) {
	if after > 0 && (p.plan.RequeueAfter == 0 || after < p.plan.RequeueAfter) {
		p.plan.RequeueAfter = after
	}
}

// hasElapsed reports whether the time is at least d ago. If not, the plan is made again when it is.
func (p *planner) hasElapsed(t time.Time, d time.Duration) bool {
	since := p.Now.Sub(t)
	p.requeueAfter(d - since)
	return since >= d
}

// report sets the fields that report what the plan waits for.
func (p *planner) report() {
	for _, c := range p.claims {
		switch {
		case c.Deleting:
			if c.at != nil && (c.state == stateDraining || c.PreDrain && !c.want.PreDrain) {
				p.plan.Draining = append(p.plan.Draining, c.Name)
			}
		case c.mismatched() && !c.Outdated:
			p.plan.Mismatched = append(p.plan.Mismatched, c.Name)
		case c.at != nil && !c.at.Ready:
			p.plan.NotReady = append(p.plan.NotReady, c.at.Name)
		}
	}
	p.reportNodes()
}

func (p *planner) reportNodes() {
	for _, n := range p.workers {
		switch {
		case n.drained():
			p.plan.Drained = append(p.plan.Drained, n.Name)
		case (n.leaving || n.instead) && n.drainingOrDrained():
			p.plan.DrainingNodes = append(p.plan.DrainingNodes, n.Name)
		case n.free():
			p.plan.Free++
			if n.pooled && !n.Ready {
				p.plan.NotReady = append(p.plan.NotReady, n.Name)
			}
		}
	}
	p.plan.Free = max(0, p.plan.Free-min(p.members(), p.poolReplicas()))
}
