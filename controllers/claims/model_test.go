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
	turned   int
	passes   int
	seen     View // in the last pass
	plan     Plan
	away     []*kubeNode // while the portal replaces them
	freed    []string    // names of nodes that are gone
	asked    int         // the sum of replicas when the portal was asked last
	refused  int         // the sum for which the portal failed to go down; -1: none
	groups   []*deployment
	machines []*model

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
	begun      int // the pass in which its drain began
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

// The portal.

// addNode adds one, perhaps under the name of one that is gone.
func (w *world) addNode(created time.Time) {
	name := w.name("n")
	if len(w.freed) > 0 && rapid.Bool().Draw(w.t, "name reused") {
		name, w.freed = w.freed[0], w.freed[1:]
	}
	w.say("portal adds %s", name)
	n := &kubeNode{Node: Node{Name: name, UID: "uid-" + w.name("u"), Created: created, Ready: true}, running: true}
	if w.ids {
		n.ProviderID = "cloud://" + name
	}
	w.nodes = append(w.nodes, n)
}

func (w *world) removeNode() *kubeNode {
	var running []*kubeNode
	for _, n := range w.nodes {
		if n.running {
			running = append(running, n)
		}
	}
	switch w.order {
	case "newest":
		running = sameAge(running, running[len(running)-1])
	case "oldest":
		running = sameAge(running, running[0])
	}
	victim := rapid.SampledFrom(running).Draw(w.t, "victim")
	w.say("portal removes %s", victim.Name)
	victim.running, victim.Ready = false, false
	if !w.leftover {
		w.nodes = slices.DeleteFunc(w.nodes, func(n *kubeNode) bool { return n == victim })
		w.freed = append(w.freed, victim.Name)
	}
	return victim
}

// sameAge returns the nodes of the same second as one of them.
func sameAge(nodes []*kubeNode, as *kubeNode) []*kubeNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *kubeNode) bool { return !n.Created.Equal(as.Created) })
}

// otherAge returns the nodes of which none of the others is of the same second.
func otherAge(nodes, others []*kubeNode) []*kubeNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *kubeNode) bool { return len(sameAge(others, n)) > 0 })
}

// remove has the portal remove workers. Where the provider has no reason to expect anything else than what this portal
// does, no node may go undrained while a drained one stays, unless one of the same second goes in its stead.
func (w *world) remove() {
	var gone, undrained []*kubeNode
	for w.size > w.target {
		victim := w.removeNode()
		gone = append(gone, victim)
		if !victim.Cordoned && w.held(victim) {
			undrained = append(undrained, victim)
		}
		w.size--
	}
	live := slices.DeleteFunc(slices.Clone(w.machines), func(m *model) bool { return m.Deleting })
	if len(live) > w.desired() {
		return // core deletes no more of them before those that are drained are gone
	}
	var stay []*kubeNode
	for _, m := range w.machines {
		n := w.node(m.ClaimNodeUID)
		if m.Deleting && m.Drained && m.begun > w.turned && !IsReleased(m.ClaimProviderID) && n != nil && n.running {
			stay = append(stay, n)
		}
	}
	undrained, stay = otherAge(undrained, stay), otherAge(stay, gone)
	asExpected := w.order == "newest" && w.learned == NewestFirst || w.order == "oldest" && w.learned == OldestFirst
	if asExpected && len(undrained) > 0 && len(stay) > 0 {
		w.fail("%s went undrained, and %s, which is drained, stays", undrained[0].Name, stay[0].Name)
	}
}

// takingOver tells whether two live Machines are on one node.
func (w *world) takingOver() bool {
	on := map[string]bool{}
	for _, m := range w.machines {
		if !m.Deleting && m.ClaimNodeUID != "" {
			if on[m.ClaimNodeUID] {
				return true
			}
			on[m.ClaimNodeUID] = true
		}
	}
	return false
}

// held tells whether a Machine claims the node: one that none does goes without a drain.
func (w *world) held(n *kubeNode) bool {
	return slices.ContainsFunc(w.machines, func(m *model) bool { return m.ClaimNodeUID == n.UID && !IsReleased(m.ClaimProviderID) })
}

// finish ends the operation that runs at the portal.
func (w *world) finish() {
	if w.failing && w.operation != Idle {
		w.fails()
		return
	}
	switch w.operation {
	case Idle:
		return
	case AddsNodes:
		for created := w.clock; w.size < w.target; w.size++ {
			w.addNode(created)
		}
	case RemoveNodes:
		w.remove()
	case Replaces:
		if len(w.away) == 0 && len(w.running()) > 0 && rapid.Bool().Draw(w.t, "away") {
			w.takeAway()
			return
		}
		w.nodes, w.away = append(w.nodes, w.away...), nil
		created := w.clock
		for _, n := range w.nodes { // the same names, new machines
			if n.running {
				w.renew(n, created)
			}
		}
	}
	w.say("portal is done: %d workers", w.size)
	w.operation, w.recorded, w.refused = Idle, w.size, -1
}

// takeAway has the portal replace nodes: they are gone, and come back under their names when it is done.
func (w *world) takeAway() {
	for _, n := range w.running() {
		if rapid.Bool().Draw(w.t, "goes") {
			w.say("%s is away", n.Name)
			w.away = append(w.away, n)
			w.nodes = slices.DeleteFunc(w.nodes, func(o *kubeNode) bool { return o == n })
		}
	}
}

// renew makes the node another machine of the same name.
func (w *world) renew(n *kubeNode, created time.Time) {
	n.UID = "uid-" + w.name("u")
	n.Created, n.Cordoned, n.Ready, n.sick, n.remediated = created, false, true, false, 0
	if !w.ids {
		n.ProviderID = ""
	}
}

// fails ends the operation that runs at the portal; what it has taken away comes back.
func (w *world) fails() {
	w.say("portal fails")
	for _, n := range w.away {
		w.renew(n, w.clock)
	}
	w.nodes, w.away = append(w.nodes, w.away...), nil
	if w.operation == RemoveNodes {
		w.refused = w.asked
	}
	if w.operation != Replaces {
		w.recorded, w.before = -1, nil
	}
	w.operation, w.failing = Idle, false
}

// The provider.

func (w *world) view() View {
	if w.desired() != w.refused {
		w.refused = -1
	}
	v := View{ClusterID: "c1", Desired: w.desired(), Size: w.recorded, Operation: w.operation, Takeovers: true, Now: w.clock,
		DownRefused: w.refused >= 0, Order: w.learned, Before: w.before}
	for _, n := range w.nodes {
		v.Nodes = append(v.Nodes, n.Node)
	}
	for _, m := range w.machines {
		view := m.Machine
		view.Outdated = m.revision != m.deployment.revision
		view.Foreign = m.deployment.foreign[m.revision]
		v.Machines = append(v.Machines, view)
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

// pass makes a plan and carries it out; after so many writes the manager stops.
func (w *world) pass(writes int) {
	w.passes++
	if w.leftover && slices.ContainsFunc(w.nodes, func(n *kubeNode) bool { return n.sick }) {
		w.turned = w.passes // nobody can tell a machine that is gone from one that is sick
	}
	view := w.view()
	plan := Make(view)
	w.foretold(view, plan)
	for _, move := range plan.Moves {
		if writes == 0 {
			w.say("manager stops")
			return
		}
		writes--
		w.carryOut(move)
	}
	if plan.Observed && writes != 0 {
		writes--
		if w.learned != plan.Order {
			w.turned = w.passes
		}
		w.learned, w.before = plan.Order, nil
	}
	if !plan.Scale || writes == 0 {
		return
	}
	w.say("scale %d → %d", w.size, plan.Size)
	if w.operation != Idle {
		w.fail("scale while the portal is busy")
	}
	most := w.size - 1
	if w.recorded < 0 {
		most = w.size // counted from Nodes, some of which may be gone: to ask for what is there changes nothing
	}
	if sum := w.desired(); plan.Size != sum && (plan.Size < sum || plan.Size > most) {
		w.fail("asked for %d of %d workers while %d are desired", plan.Size, w.size, sum)
	}
	w.scales++
	w.target, w.recorded, w.asked = plan.Size, plan.Size, w.desired()
	w.operation = AddsNodes
	if plan.Size < w.size {
		w.operation, w.before = RemoveNodes, Sight(plan.Present)
	}
}

func (w *world) carryOut(move Move) {
	m := w.machine(move.Machine)
	w.say("move %d %s %s", move.Kind, move.Machine, move.Node.Name)
	switch move.Kind {
	case AddHooks:
		if !m.Deleting {
			m.PreDrain, m.PreTerminate = true, true
		}
	case NameNode:
		w.node(move.Node.UID).ProviderID = move.Node.ProviderID
	case Bind, Swap:
		if move.Kind == Swap || !m.Deleting {
			m.ClaimNode, m.ClaimNodeUID, m.ClaimProviderID = move.Node.Name, move.Node.UID, move.Node.ProviderID
		}
	case PointAtNode:
		m.NodeRef = move.Node.Name
	case StartDrain:
		if len(w.running()) <= w.desired() {
			w.fail("%s is drained though no node is to go", move.Node.Name)
		}
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
	i := slices.IndexFunc(w.machines, func(m *model) bool { return m.Name == name })
	return w.machines[i]
}

func (w *world) node(uid string) *kubeNode {
	for _, n := range w.nodes {
		if n.UID == uid {
			return n
		}
	}
	return nil
}
