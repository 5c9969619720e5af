// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// TestRandomHistories lets users, core, the portal and crashes act at random, then waits until everything has settled. The
// invariants are checked at every step (model_test.go) and at the end. Replay a failure with -rapid.seed or the file that rapid
// names.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.settle()
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			w.act()
			for range rapid.IntRange(0, 8).Draw(t, "steps") {
				w.step()
			}
			if rapid.Bool().Draw(t, "settle") {
				w.settle()
			}
		}
		for _, n := range w.nodes {
			n.blocked = false
		}
		w.rest()
		w.trouble = trouble{}
		w.settle()
	})
}

func begin(t *rapid.T) *world {
	w := &world{t: t, clock: time.Unix(0, 0), recorded: -1,
		order:    rapid.SampledFrom([]removal.Order{removal.Newest, removal.Oldest, removal.Random}).Draw(t, "order"),
		stated:   rapid.Bool().Draw(t, "stated"),
		listed:   rapid.Bool().Draw(t, "listed"),
		ids:      rapid.Bool().Draw(t, "ids"),
		late:     rapid.Bool().Draw(t, "late"),
		leftover: rapid.Bool().Draw(t, "leftover"),
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "deployments") {
		d := newDeployment(string(rune('a'+i)), rapid.IntRange(0, 4).Draw(t, "replicas"))
		d.surge = rapid.IntRange(0, 1).Draw(t, "surge")
		w.groups = append(w.groups, d)
	}
	w.beginPool()
	w.size = w.desired()
	w.recorded = w.size
	w.addNodes(w.size)
	return w
}

// act is one action of a user, or of the environment.
func (w *world) act() {
	d := rapid.SampledFrom(w.groups).Draw(w.t, "deployment")
	switch rapid.SampledFrom([]string{"replicas", "rollout", "delete", "lower", "upgrade", "block", "twice", "trouble", "sick", "wait", "foreign", "move", "slow", "gone", "pool", "pool"}).Draw(w.t, "act") {
	case "gone":
		for _, d := range w.groups {
			d.replicas = 0
		}
		w.gone = true
		w.say("user deletes all deployments")
	case "pool":
		w.actOnPool(d)
	case "replicas":
		w.setReplicas(d)
		w.say("%s: replicas %d", d.name, d.replicas)
	case "foreign":
		d.revise(true)
		w.say("%s: foreign revision %d", d.name, d.revision)
	case "rollout":
		d.revise(false)
		w.say("%s: revision %d", d.name, d.revision)
	case "twice":
		d.revise(false)
		w.setReplicas(d)
		w.say("%s: revision %d, replicas %d", d.name, d.revision, d.replicas)
	case "delete":
		if len(w.machines) > 0 {
			m := rapid.SampledFrom(w.machines).Draw(w.t, "machine")
			m.Deleting = true
			w.say("user deletes %s", m.Name)
		}
	case "lower":
		if len(w.machines) > 0 && d.replicas > 0 {
			m := rapid.SampledFrom(w.machines).Draw(w.t, "machine")
			m.Deleting = true
			for range rapid.IntRange(0, 3).Draw(w.t, "laps") {
				w.lap()
			}
			d.replicas--
			w.say("user deletes %s; %s: replicas %d", m.Name, d.name, d.replicas)
		}
	case "upgrade":
		if w.operation == Idle && w.pausePool() {
			w.operation, w.looked, w.unfinished = ReplacingNodes, nil, nil // a pass either asks for this or plans
			w.jobs++
			w.batch, w.older = fmt.Sprintf("upgrade%d", w.jobs), w.snapshot()
			w.say("upgrade")
		}
	case "trouble":
		w.trouble = trouble{kind: rapid.SampledFrom([]string{"refuse", "fail", "half", "lose"}).Draw(w.t, "trouble"), left: rapid.IntRange(-1, 4).Draw(w.t, "times")}
		if w.trouble.kind == "lose" {
			w.trouble.left = 1
		}
		w.say("trouble: %+v", w.trouble)
		w.setReplicas(d)
	case "sick":
		if running := w.running(); len(running) > 0 {
			n := rapid.SampledFrom(running).Draw(w.t, "node")
			n.Ready, n.NotReadySince = false, w.clock
			w.say("%s is sick", n.Name)
		}
	case "move":
		if rapid.Bool().Draw(w.t, "amid a change") {
			w.setReplicas(d)
			for range rapid.IntRange(0, 5).Draw(w.t, "laps") {
				w.lap()
			}
		}
		w.move()
	case "slow":
		w.beSlow(d)
	case "wait":
		w.clock = w.clock.Add(5 * time.Minute)
	case "block":
		if len(w.nodes) > 0 {
			rapid.SampledFrom(w.nodes).Draw(w.t, "node").blocked = true
		}
	}
}

// move takes all objects to another management cluster, like clusterctl move and backups: without status, and objects that were
// being deleted are not any more.
func (w *world) move() {
	w.say("all is moved")
	w.looked, w.unfinished = nil, nil
	for _, m := range w.machines {
		m.Deleting, m.AtPreTerminate, m.NodeRef, m.read, m.claimGone = false, false, "", nil, false
		m.known = m.Claim.ProviderID
	}
	w.movePool()
}

func (w *world) setReplicas(d *deployment) {
	w.gone = false
	d.replicas = rapid.IntRange(0, 5).Draw(w.t, "replicas")
}

// step lets one of the actors act once.
func (w *world) step() {
	switch rapid.IntRange(0, 6).Draw(w.t, "actor") {
	case 6:
		if w.pool != nil && !w.pool.deleting && !w.pool.away && w.pool.read == nil && rapid.Bool().Draw(w.t, "slowly") {
			w.readPool()
			return
		}
		w.reconcilePool()
	case 0:
		w.roll(rapid.SampledFrom(w.groups).Draw(w.t, "deployment"))
	case 1:
		w.replicate(rapid.SampledFrom(w.groups).Draw(w.t, "deployment"))
	case 2:
		if len(w.machines) > 0 {
			m := rapid.SampledFrom(w.machines).Draw(w.t, "machine")
			if m.read == nil && rapid.Bool().Draw(w.t, "slowly") {
				w.read(m)
				return
			}
			w.reconcile(m)
		}
	case 3:
		if w.unfinished == nil && w.looked == nil && rapid.Bool().Draw(w.t, "slowly") {
			w.look()
			return
		}
		w.pass(rapid.IntRange(0, 6).Draw(w.t, "writes"))
	case 4:
		w.finish()
	}
}

// round lets every actor act once.
func (w *world) round() {
	w.lap()
	w.finish()
}

// lap lets every actor except the portal act once.
func (w *world) lap() {
	w.clock = w.clock.Add(20 * time.Second)
	w.initialize()
	for _, d := range w.groups {
		w.roll(d)
		w.replicate(d)
	}
	for _, m := range slices.Clone(w.machines) {
		m.known = m.Claim.ProviderID
		w.reconcile(m)
	}
	w.reconcilePool()
	w.schedule()
	w.pass(-1)
}

// schedule puts Pods on every node that accepts them, and evicts them from nodes that have not been Ready for long.
func (w *world) schedule() {
	for _, n := range w.running() {
		n.busy = n.busy || n.Ready && !n.Cordoned && !n.Uninitialized
		if !n.Ready && w.clock.Sub(n.NotReadySince) >= 5*time.Minute {
			n.busy = false
		}
	}
}

// settle waits until nothing changes any more, and checks the final state. Blocked drains, and a portal that refuses, may prevent
// that.
func (w *world) settle() {
	if w.pool != nil {
		w.pool.away = false
	}
	if w.looked != nil || w.unfinished != nil {
		w.pass(-1)
	}
	if w.trouble.left != 0 || slices.ContainsFunc(w.nodes, func(n *kubeNode) bool { return n.blocked }) {
		for range 10 {
			w.round()
		}
		return
	}
	w.heal()
	w.rounds(200)
	if !w.quiet() && w.deleteGone() {
		w.rounds(200)
	}
	scales := w.scales
	for range 5 {
		w.round()
	}
	if !w.quiet() || w.scales != scales {
		w.dump()
		w.fail("does not settle: desired %d, size %d, %d running nodes, %d machines", w.desired(), w.size, len(w.running()), len(w.machines))
	}
	w.judgeList()
}

// rounds lets all act until it is quiet, at most so many times.
func (w *world) rounds(most int) {
	for range most {
		if w.quiet() {
			return
		}
		w.round()
	}
}

// rest checks that core does not wait for a portal that keeps refusing, failing or doing half of the work: no Machine is left in
// between, while drained nodes wait.
func (w *world) rest() {
	if w.trouble.left == 0 || w.trouble.kind == "lose" {
		return
	}
	w.trouble.left = -1
	w.heal()
	var waiting string
	for range 300 {
		w.round()
		if waiting = w.waiting(); waiting == "" {
			return
		}
	}
	w.dump()
	w.fail("%s does not come to rest while the portal is in trouble: desired %d, size %d", waiting, w.desired(), w.size)
}

// waiting names what has not come to rest beside a portal in trouble: a Machine, or the drained nodes. While it is unclear whether a
// claimed node that is not Ready is gone, its Machine stays, and a roll-out waits for that Machine to become Ready.
func (w *world) waiting() string {
	unclear := slices.ContainsFunc(w.machines, func(m *model) bool {
		n := w.node(m.Claim.UID)
		return n != nil && !n.Ready
	})
	for _, m := range w.machines {
		if m.Deleting || !unclear && (m.revision != m.deployment.revision || !w.ready(m)) {
			return m.Name
		}
	}
	marked := len(filter(w.running(), func(n *kubeNode) bool { return n.drainingOrDrained() }))
	surplus := len(w.running()) - w.desired() // and one more, which the portal may remove instead
	if !unclear && !w.unasked() && (len(w.machines) != w.machinesWanted() || marked < surplus || marked > surplus+oneIf(surplus > 0)) {
		return fmt.Sprintf("%d drained of %d nodes", marked, len(w.running()))
	}
	return ""
}

// heal reverts templates that cannot be honored, and heals nodes.
func (w *world) heal() {
	for _, d := range w.groups {
		d.revision = d.good
	}
	for _, n := range append(w.running(), w.away...) {
		n.Ready = true
	}
}

// deleteGone is a user who finds that the instance of a Node that is not Ready is gone, and deletes the Node (docs/workers.md). While the size
// is uncertain, a roll-out with a surge waits for the Machine that holds such a Node. It reports whether there was one.
func (w *world) deleteGone() bool {
	before := len(w.nodes)
	w.nodes = filter(w.nodes, func(n *kubeNode) bool { return n.running || n.Ready || !w.uncertain || !w.surges(n) })
	return len(w.nodes) < before
}

// surges reports whether a Machine of a roll-out that has one more than its replicas holds the node.
func (w *world) surges(n *kubeNode) bool {
	return slices.ContainsFunc(w.machines, func(m *model) bool {
		all := filter(w.machines, func(other *model) bool { return other.deployment == m.deployment && !other.Deleting })
		return m.Claim.UID == n.UID && len(all) > m.deployment.replicas
	})
}

func (w *world) dump() {
	w.say("size recorded %d, uncertain %t; operation %d to %d, lost %t; last plan: %s", w.recorded, w.uncertain, w.operation, w.target, w.lost, summary(w.plan))
	p := read(w.seen)
	p.leave()
	w.say("surplus %d, needed %d, partial %t, settled %t, %d workers", p.surplus, p.needed(), p.partial, p.settled(), len(p.workers))
	for _, n := range p.leaving {
		w.say("leaving %s removable %t", n.Name, p.removable(n))
	}
	for _, m := range w.machines {
		w.say("machine %+v of revision %d, wanted %d; sets %v", m.Machine, m.revision, m.deployment.revision, m.deployment.sets)
	}
	for _, n := range w.nodes {
		w.say("node %+v", *n)
	}
	w.say("pool %+v", w.pool)
}

// quiet reports whether Machines and nodes match one to one, everything is up to date and Ready, and nothing is cordoned.
func (w *world) quiet() bool {
	running := w.running()
	wanted := w.desired()
	if w.unasked() {
		wanted = w.size // what was not drained has stayed. If the size is uncertain, no request settles it before one is needed
	}
	if w.operation != Idle || w.uncertain && !w.unasked() || w.size != wanted || len(running) != wanted || len(w.machines) != w.machinesWanted() {
		return false
	}
	for _, d := range w.groups {
		for revision, replicas := range d.sets {
			if revision == d.revision && replicas != d.replicas || revision != d.revision && replicas > 0 {
				return false
			}
		}
	}
	held := map[string]bool{}
	for _, m := range w.machines {
		if m.Deleting || m.revision != m.deployment.revision || !w.ready(m) || held[m.NodeRef] || m.NodeRef != m.Claim.Name {
			return false
		}
		held[m.NodeRef] = true
	}
	return w.poolQuiet(held) && !slices.ContainsFunc(running, func(n *kubeNode) bool { return n.Cordoned || n.drainingOrDrained() })
}

// TestNothingIsAskedWithoutAChangeOfReplicas rolls out, deletes Machines and replaces them: the portal is not asked.
func TestNothingIsAskedWithoutAChangeOfReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := begin(t)
		w.settle()
		scales := w.scales
		for range rapid.IntRange(1, 10).Draw(t, "rounds") {
			d := rapid.SampledFrom(w.groups).Draw(t, "deployment")
			if rapid.Bool().Draw(t, "rollout") {
				d.revise(false)
			} else if len(w.machines) > 0 {
				rapid.SampledFrom(w.machines).Draw(t, "machine").Deleting = true
			}
			for range rapid.IntRange(0, 10).Draw(t, "steps") {
				w.step()
			}
		}
		w.settle()
		if w.scales != scales {
			w.fail("the portal was asked %d times to scale", w.scales-scales)
		}
		if slices.ContainsFunc(w.nodes, func(n *kubeNode) bool { return !n.running }) {
			w.fail("a node was lost")
		}
	})
}
