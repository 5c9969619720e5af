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
	Free          int      // nodes without a Machine that are not the pool's, and whose drain has not begun
	Draining      []string // Machines whose Node core drains
	DrainingNodes []string // Nodes that the provider drains
	AnyMayGo      bool     // the portal is not asked, because it may remove any of the workers (View.DrainPossible)
	Drained       []string // Nodes that are drained and wait to be removed
	Mismatched    []string // Machines whose template asks for other workers than the portal cluster has
	NotReady      []string // nodes that hold a Machine, or are the pool's, and are not Ready
}

// Decide returns what to do. Each phase answers one question, in the file of its name. The order matters: a phase reads what the ones above it
// have decided. Any of the first seven may also change how an object should be (claim.want, worker.want). write compares that with how it is, and
// phases 4, 5 and 10 ask whether this plan changes an object already. Each may put into the plan what it alone knows, and when to plan again.
//
//	#   phase    question                                                        decides                                 read by
//	1   read     what exists, who has what, and in which order does it go?       claims, workers, line, pooled           2 to 10
//	2   learn    what has the last scale-down shown?                             Plan.Evidence. Then the plan is ready   workers
//	3   leave    which nodes go next, and which may go instead?                  leaving, instead, surplus, partial      4 to 10
//	4   hold     what becomes of Machines that are being deleted, or must move?  taken                                   5, 6, 8 to 10
//	5   bind     which Machine that stays gets which node?                       taken                                   6, 8 to 10
//	6   pool     which nodes does the pool list?                                 list, pooled                            7 to 9
//	7   protect  which nodes must the autoscaler leave alone?                                                            8
//	8   write    what differs, and what does the provider drain and delete?      Plan.Writes                             workers
//	9   report   what does the plan wait for?                                    Plan.Draining, Free and the like        workers, conditions
//	10  ask      how many workers is the portal asked for?                       Plan.Scale, Size, Reached, SizeCertain  workers
func Decide(v View) Plan {
	p := read(v)
	if p.learn() {
		return p.plan // the next pass decides with the new order
	}
	p.leave()
	p.hold()
	p.bind()
	p.pool()
	p.protect()
	p.write()
	p.report()
	p.ask()
	return p.plan
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
