// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// world is a model of everything around the plan: the portal with its nodes, the workload cluster's Node objects and Pods, core's
// MachineDeployments, MachineSets and Machines, and the provider that carries plans out and may stop between any two writes.
// TestModelIsLikeCore compares the model of core with the real core, change by change.
type world struct {
	t     *rapid.T
	clock time.Time
	names int

	order    removal.Order // in which the portal removes workers
	listed   bool          // within a batch it goes by its list of instances, which shows their names
	ids      bool          // the portal sets the providerIDs of nodes
	late     bool          // its cloud controller sets some of them after the nodes have joined
	leftover bool          // Node objects of removed machines stay

	nodes     []*kubeNode
	size      int // of the portal's cluster
	operation Activity
	from      int
	target    int
	away      []*kubeNode // while the portal replaces them
	replaced  int         // by the upgrade that runs
	freed     []string    // names of nodes that are gone
	trouble   trouble

	// What the provider has recorded.
	recorded  int
	uncertain bool
	learned   removal.Evidence
	before    []removal.NodeSnapshot
	batch     string                 // the last scale or upgrade
	older     []removal.NodeSnapshot // than that
	ended     time.Time              // when the last scale-down did
	compare   bool                   // the nodes before a scale-down that succeeded with those that it left
	stated    bool                   // the user has set spec.removalOrder
	lost      bool                   // the answer to the request that started the operation
	unheard   bool                   // the portal never got the request
	asked     time.Time              // when the portal was asked last
	retry     time.Time              // not before this time, after a refusal or a failure
	pause     time.Duration

	differs    time.Time // since when the nodes differ from the size
	drift      string    // what differs
	seen       View      // in the last pass
	plan       Plan
	looked     *View // for a pass that has started to read
	unfinished *pass // the pass was interrupted and will continue

	groups   []*deployment
	gone     bool // the user has deleted all deployments. They are gone when their Machines are
	machines []*model
	pool     *poolModel // nil without a pool

	scales  int // accepted by the portal
	jobs    int // of the portal, that make nodes
	history []string
}

// trouble is how the portal treats requests for fewer workers, left times. If left is negative, it has no end.
type trouble struct {
	kind string // refuse, fail, half or lose
	left int
}

type kubeNode struct {
	Node
	running bool      // the portal runs its machine
	stopped time.Time // since when it does not. Its Node is Ready for a while
	busy    bool      // Pods run on it, other than those of DaemonSets
	job     int       // of the portal, that made it
	blocked bool      // its Pods must not be evicted
	// ruler is the deployment whose Machine was bound to it last. Its rules count for a drain.
	ruler string

	cloudID string // the providerID that the portal's cloud controller will set, while the node is Uninitialized
}

type deployment struct {
	name     string
	replicas int
	revision int
	surge    int // 1/0, or 0/1 when 0
	sets     map[int]int
	foreign  map[int]bool // revisions that the portal cannot honor
	good     int          // the last revision that it can honor
}

func newDeployment(name string, replicas int) *deployment {
	return &deployment{name: name, replicas: replicas, revision: 1, surge: 1, sets: map[int]int{1: 0}, foreign: map[int]bool{}, good: 1}
}

// revise gives the deployment a new revision.
func (d *deployment) revise(foreign bool) {
	d.revision = 1 + slices.Max(slices.Collect(maps.Keys(d.sets)))
	d.sets[d.revision] += 0
	d.foreign[d.revision] = foreign
	if !foreign {
		d.good = d.revision
	}
}

// old are the revisions of the MachineSets before the latest one, the oldest first.
func (d *deployment) old() []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.sets)), func(revision int) bool { return revision == d.revision })
}

type model struct {
	Machine
	deployment *deployment
	revision   int
	claimGone  bool
	known      string   // the providerID of the claim that core knows, at least the one before the last write
	read       *Machine // what core read at the beginning of a pass that has not ended
}

func (w *world) say(format string, args ...any) {
	if w.history = append(w.history, fmt.Sprintf(format, args...)); len(w.history) > 3000 {
		w.history = w.history[1500:]
	}
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

// machinesWanted is the sum of the replicas without those of the pool.
func (w *world) machinesWanted() (sum int) {
	for _, d := range w.groups {
		sum += d.replicas
	}
	return sum
}

// unasked reports whether no object asks for workers.
func (w *world) unasked() bool { return w.gone && len(w.machines) == 0 && w.pool == nil }

// The provider.

// look starts a view. Machines and the record are read before the Nodes.
func (w *world) look() {
	v := View{ClusterID: "c1", Desired: w.desired(), Unasked: w.unasked(), Size: w.recorded, SizeUncertain: w.uncertain, Activity: w.operation, Target: w.target, Now: w.clock,
		Order: w.expected(), OrderAssumed: w.orderAssumed(), Evidence: w.learned, Before: w.before, ScaledDown: w.compare, Ended: w.ended, AnswerLost: w.lost, MayResend: w.lost && w.clock.Sub(w.asked) >= 30*time.Second, Pool: w.poolView()}
	for _, m := range w.machines {
		view := m.Machine
		view.Outdated = m.revision != m.deployment.revision
		view.TemplateMismatch = m.deployment.foreign[m.revision]
		v.Machines = append(v.Machines, view)
	}
	w.looked = &v
}

// expected is the order that the provider assumes.
func (w *world) expected() removal.Order {
	if w.stated {
		return w.order
	}
	order, _ := w.learned.Expected()
	return order
}

// orderKnown reports whether the provider knows in which order this portal removes workers.
func (w *world) orderKnown() bool {
	return w.order != removal.Random && w.expected() == w.order && !w.orderAssumed()
}

// orderAssumed reports whether the order that the provider expects is a guess.
func (w *world) orderAssumed() bool { return !w.stated && w.learned.Order == "" }

// view completes a view.
func (w *world) view() View {
	if w.looked == nil {
		w.look()
	}
	v := *w.looked
	w.looked = nil
	for i, n := range w.nodes {
		if !n.running && n.Ready && w.clock.Sub(n.stopped) >= 40*time.Second {
			n.Ready, n.NotReadySince = false, w.clock
		}
		if w.listed {
			n.Position = i + 1
		}
		n.Batch = w.madeBy(n)
		v.Nodes = append(v.Nodes, n.Node)
	}
	return v
}

// foretold checks that the plan is the one of the last pass if only time has passed, or that the last pass has set a time to look
// again. Otherwise no event would wake the provider.
func (w *world) foretold(view View, plan Plan) {
	passed, last := view.Now.Sub(w.seen.Now), w.plan
	w.seen.Now = view.Now
	same := reflect.DeepEqual(view, w.seen)
	w.seen, w.plan = view, plan
	if !same || summary(plan) == summary(last) {
		return
	}
	if last.RequeueAfter == 0 || last.RequeueAfter > passed {
		w.fail("only time has passed, and the plan is another one; it was to be looked at again after %s", last.RequeueAfter)
	}
}

// pass makes a plan and carries it out. After the given number of writes it is interrupted: others act before it continues, or
// the manager stops. As in package portalcontrolplane, the plan is not made again before each write.
func (w *world) pass(writes int) {
	if w.unfinished == nil {
		w.unfinished = w.begin()
	}
	p := w.unfinished
	for ; len(p.writes) > 0; writes-- {
		if writes == 0 {
			w.interrupt()
			return
		}
		if !w.carryOut(p.writes[0]) {
			w.unfinished = nil // the object changed since it was read: look again
			return
		}
		p.writes = p.writes[1:]
	}
	w.unfinished = nil
	if p.OrderObserved && writes != 0 {
		writes--
		w.learned, w.compare, w.older = p.Evidence, false, nil
	}
	if w.drifts(p) && writes != 0 {
		w.recorded, w.uncertain = p.Counted, true
	}
	if p.SizeCertain && writes != 0 {
		w.recorded, w.uncertain = p.Desired, false
	}
	if p.Reached && w.lost && writes != 0 {
		w.compare = w.operation == RemovingNodes
		w.end()
		w.operation, w.lost, w.unheard, w.recorded, w.uncertain = Idle, false, false, w.target, false
		return
	}
	if p.Scale && writes != 0 && !w.clock.Before(w.retry) {
		w.scale(p)
	}
}

// drifts reports whether the nodes have differed from the recorded size for long enough to be counted.
func (w *world) drifts(p *pass) bool {
	drift := ""
	if p.view.Activity == Idle && w.operation == Idle && w.recorded >= 0 && !w.uncertain && p.Counted != w.recorded {
		drift = fmt.Sprint(p.Counted)
		for _, n := range p.Present {
			drift += " " + n.UID
		}
	}
	if drift != w.drift {
		w.drift, w.differs = drift, w.clock
	}
	return drift != "" && w.clock.Sub(w.differs) >= 2*time.Minute
}

// pass is a pass that has started.
type pass struct {
	Plan
	view   View
	writes []Write // still to be carried out
}

func (w *world) begin() *pass {
	w.forgetNodes()
	view := w.view()
	plan := Decide(view)
	w.foretold(view, plan)
	// While the size is uncertain, it is unknown which of the nodes that are not Ready are gone.
	unclear := view.SizeUncertain && slices.ContainsFunc(view.Nodes, func(n Node) bool { return !n.Ready })
	if !slices.IsSortedFunc(plan.Writes, func(a, b Write) int { return int(a.Step - b.Step) }) {
		w.fail("the writes are not in the order of the steps: %s", summary(plan))
	}
	for _, write := range plan.Writes {
		seen, want := write.Machine.Seen, write.Machine.Want
		byCore := write.Step == WriteMachine && seen.PreDrain && !want.PreDrain && want.PreTerminate
		starts := byCore || write.Step == DrainNode && !write.Node.Seen.drainingOrDrained()
		if starts && (len(w.running()) <= view.Desired && !unclear || view.Unasked) {
			w.fail("%s: a node is drained though no node is to go", write.brief())
		}
	}
	return &pass{Plan: plan, view: view, writes: plan.Writes}
}

func (w *world) interrupt() {
	if rapid.Bool().Draw(w.t, "stops") {
		w.say("manager stops")
		w.unfinished = nil
	}
}

func (w *world) snapshot() (all []removal.NodeSnapshot) {
	for _, n := range w.nodes {
		one := n.Node.snapshot()
		one.Batch = w.madeBy(n)
		all = append(all, one)
	}
	return all
}

// madeBy returns the operation that made the node, as the provider finds out.
func (w *world) madeBy(n *kubeNode) string {
	noted := n.Node.snapshot()
	noted.Batch = n.BatchNoted
	return removal.MadeBy(noted, w.batch, w.older)
}

func (w *world) running() []*kubeNode {
	return filter(w.nodes, func(n *kubeNode) bool { return n.running })
}

func (w *world) machine(name string) *model {
	return find(w.machines, func(m *model) bool { return m.Name == name })
}

func (w *world) node(uid string) *kubeNode {
	return find(w.nodes, func(n *kubeNode) bool { return n.UID == uid })
}

func (w *world) named(name string) *kubeNode {
	return find(w.nodes, func(n *kubeNode) bool { return n.Name == name })
}

// provided returns the Node with the providerID.
func (w *world) provided(id string) *kubeNode {
	return find(w.nodes, func(n *kubeNode) bool { return n.ProviderID == id })
}

func filter[T any](all []*T, wanted func(*T) bool) []*T {
	return slices.DeleteFunc(slices.Clone(all), func(one *T) bool { return !wanted(one) })
}

func find[T any](all []*T, wanted func(*T) bool) *T {
	if i := slices.IndexFunc(all, wanted); i >= 0 {
		return all[i]
	}
	return nil
}

func without[T any](all []*T, one *T) []*T {
	return filter(all, func(other *T) bool { return other != one })
}

// put writes a field if it differs from what was seen.
func put[T comparable](field *T, seen, want T) {
	if want != seen {
		*field = want
	}
}
