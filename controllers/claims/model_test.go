// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// world is a model of everything around the plan: the portal with its nodes, the workload cluster's Node objects, core's
// MachineDeployments, MachineSets and Machines, and our own carrying out of plans, which may stop between any two
// writes. How core behaves here is what test/facts ties to the real thing.
type world struct {
	t     *rapid.T
	clock time.Time
	names int

	order    string // of victims: newest, oldest, random
	ids      bool   // nodes come with a providerID
	leftover bool   // Node objects of removed machines stay behind

	nodes     []*kubeNode
	size      int // of the portal's cluster
	operation Operation
	target    int

	failing bool // the operation that runs will fail, and do nothing

	recorded int // what the provider knows as the size
	learned  Order
	before   []Sighting
	// turned is the pass before which drains began that were for something else: the portal was found to follow another
	// order since, somebody changed the replicas, or nobody could tell which nodes there are.
	turned int
	passes int
	seen   View // in the last pass
	plan   Plan
	looked *View // for the pass that has begun to read
	// unfinished is the pass that was interrupted and goes on.
	unfinished *pass
	away       []*kubeNode // while the portal replaces them
	freed      []string    // names of nodes that are gone
	asked      int         // the sum of replicas when the portal was asked last
	refused    int         // the sum for which the portal failed to go down; -1: none
	groups     []*deployment
	machines   []*model

	scales  int // calls to the portal
	history []string
}

type kubeNode struct {
	Node
	running    bool // the portal runs its machine
	sick       bool // and it is not Ready, for a reason of its own
	remediated int  // Machines that were deleted for that
}

type deployment struct {
	name     string
	replicas int
	revision int
	surge    int // 1/0, or 0/1 when 0
	sets     map[int]int
	foreign  map[int]bool // revisions that the portal cannot honour
	good     int          // the last one that it can
}

// revise gives the deployment a new revision.
func (d *deployment) revise(foreign bool) {
	d.revision = 1 + slices.Max(slices.Collect(mapKeys(d.sets)))
	d.sets[d.revision] += 0
	d.foreign[d.revision] = foreign
	if !foreign {
		d.good = d.revision
	}
}

type model struct {
	Machine
	deployment *deployment
	revision   int
	blocked    bool // its drain does not end
	claimGone  bool
	begun      int      // the pass in which its drain began
	read       *Machine // what core read at the beginning of a pass that has not ended
}

func (w *world) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	for _, line := range w.history {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) name(prefix string) string {
	w.names++
	w.clock = w.clock.Add(time.Second)
	return fmt.Sprintf("%s%d", prefix, w.names)
}

func (w *world) desired() (sum int) {
	for _, d := range w.groups {
		sum += d.replicas
	}
	return sum
}

// The provider.

// look begins a view: Machines and what is known of the portal are read before the Nodes.
func (w *world) look() {
	if w.desired() != w.refused {
		w.refused = -1
	}
	v := View{ClusterID: "c1", Desired: w.desired(), Size: w.recorded, Operation: w.operation, Takeovers: true, Now: w.clock,
		DownRefused: w.refused >= 0, Order: w.learned, Before: w.before}
	for _, m := range w.machines {
		view := m.Machine
		view.Outdated = m.revision != m.deployment.revision
		view.Foreign = m.deployment.foreign[m.revision]
		v.Machines = append(v.Machines, view)
	}
	w.looked = &v
}

// view ends one.
func (w *world) view() View {
	if w.looked == nil {
		w.look()
	}
	v := *w.looked
	w.looked = nil
	for _, n := range w.nodes {
		v.Nodes = append(v.Nodes, n.Node)
	}
	return v
}

// foretold wants a plan to be the one of the last pass, if nothing but time has passed; or the last one has said when to
// look again, for then nobody else tells.
func (w *world) foretold(view View, plan Plan) {
	passed, last := view.Now.Sub(w.seen.Now), w.plan
	w.seen.Now = view.Now
	same := reflect.DeepEqual(view, w.seen)
	w.seen, w.plan = view, plan
	if !same || plan.Scale == last.Scale && reflect.DeepEqual(plan.Moves, last.Moves) {
		return
	}
	if last.After == 0 || last.After > passed {
		w.fail("only time has passed, and the plan is another one; it was to be looked at again after %s", last.After)
	}
}

// pass makes a plan and carries it out; after so many writes it is interrupted: others act before it goes on, or the
// manager stops. As in package portalcontrolplane, what a plan says is not decided anew before each write.
func (w *world) pass(writes int) {
	if w.unfinished == nil {
		w.unfinished = w.begin()
	}
	p := w.unfinished
	for ; len(p.moves) > 0; writes-- {
		if writes == 0 {
			w.interrupt()
			return
		}
		if move := p.moves[0]; !w.carryOut(move) {
			w.unfinished = nil // it changed under our eyes: look again
			return
		}
		p.moves = p.moves[1:]
	}
	w.unfinished = nil
	if p.Observed && writes != 0 {
		writes--
		if w.learned != p.Order {
			w.turned = w.passes
		}
		w.learned, w.before = p.Order, nil
	}
	if p.Scale && writes != 0 {
		w.scale(p)
	}
}

// pass is one that has begun.
type pass struct {
	Plan
	view  View
	moves []Move // still to be carried out
}

func (w *world) begin() *pass {
	w.passes++
	if w.leftover && slices.ContainsFunc(w.nodes, func(n *kubeNode) bool { return n.sick }) {
		w.turned = w.passes // nobody can tell a machine that is gone from one that is sick
	}
	view := w.view()
	plan := Make(view)
	w.foretold(view, plan)
	for _, move := range plan.Moves {
		if move.Kind == StartDrain && len(w.running()) <= view.Desired {
			w.fail("%s is drained though no node is to go", move.Node.Name)
		}
	}
	return &pass{Plan: plan, view: view, moves: plan.Moves}
}

func (w *world) interrupt() {
	if rapid.Bool().Draw(w.t, "stops") {
		w.say("manager stops")
		w.unfinished = nil
	}
}

// scale asks the portal.
func (w *world) scale(p *pass) {
	w.say("scale %d → %d", w.size, p.Size)
	if w.operation != Idle {
		w.fail("scale while the portal is busy")
	}
	most := w.size - 1
	if w.recorded < 0 {
		most = w.size // counted from Nodes, some of which may be gone: to ask for what is there changes nothing
	}
	if sum := p.view.Desired; p.Size != sum && (p.Size < sum || p.Size > most) {
		w.fail("asked for %d of %d workers while %d are desired", p.Size, w.size, sum)
	}
	w.scales++
	w.target, w.recorded, w.asked = p.Size, p.Size, p.view.Desired
	w.operation = AddsNodes
	if p.Size < w.size {
		w.operation, w.before = RemoveNodes, Sight(p.Present)
	}
}

// carryOut does one move, and tells whether what it is for is still there.
func (w *world) carryOut(move Move) bool {
	m := w.machine(move.Machine)
	if m == nil {
		return false
	}
	w.say("move %d %s %s", move.Kind, move.Machine, move.Node.Name)
	switch move.Kind {
	case AddHooks:
		if !m.Deleting {
			m.PreDrain, m.PreTerminate = true, true
		}
	case NameNode:
		n := w.node(move.Node.UID)
		if n == nil {
			return false
		}
		n.ProviderID = move.Node.ProviderID
	case Bind, Swap:
		if move.Kind == Swap || !m.Deleting {
			m.ClaimNode, m.ClaimNodeUID, m.ClaimProviderID = move.Node.Name, move.Node.UID, move.Node.ProviderID
		}
	case PointAtNode:
		m.NodeRef = move.Node.Name
	case StartDrain:
		m.PreDrain = false
		if !w.takingOver() { // a node that is being taken over cannot be had: core may wait for this Machine to go
			m.begun = w.passes
		}
	case Detach:
		m.ClaimProviderID = ReleasedProviderID("c1", m.Name)
	case ForgetNode:
		m.NodeRef = ""
	case LetGo:
		m.PreDrain, m.PreTerminate = false, false
	case Uncordon:
		if !m.Deleting && w.operation == RemoveNodes {
			w.fail("%s is made schedulable while the portal removes nodes", move.Node.Name)
		}
		if n := w.node(move.Node.UID); n != nil {
			n.Cordoned = false
		}
	case Mark:
		m.Marked = true
	case Shield:
		m.Shielded = true
	case Unshield:
		m.Shielded = false
	}
	return true
}

func (w *world) running() (all []*kubeNode) {
	for _, n := range w.nodes {
		if n.running {
			all = append(all, n)
		}
	}
	return all
}

func (w *world) machine(name string) *model {
	if i := slices.IndexFunc(w.machines, func(m *model) bool { return m.Name == name }); i >= 0 {
		return w.machines[i]
	}
	return nil
}

func (w *world) node(uid string) *kubeNode {
	for _, n := range w.nodes {
		if n.UID == uid {
			return n
		}
	}
	return nil
}
