// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// Core.

func (w *world) ready(m *model) bool {
	n := w.named(m.NodeRef)
	return !m.Deleting && n != nil && n.Ready
}

// roll is the MachineDeployment controller. It lets the latest MachineSet grow within the surge, and the older ones shrink while enough
// Machines are available. Machines that are being deleted count until they are gone.
func (w *world) roll(d *deployment) {
	before, least := maps.Clone(d.sets), 0 // available at any time
	if d.replicas > 0 {
		least = d.replicas - (1 - d.surge)
	}
	total, spare, available := 0, -least, 0
	for revision, replicas := range before {
		total += max(replicas, len(w.set(d, revision)))
		spare += replicas
		available += w.available(d, revision)
	}
	d.sets[d.revision] = min(d.replicas, before[d.revision]+max(0, d.replicas+d.surge-total))
	spare -= max(0, before[d.revision]-w.available(d, d.revision))
	for revision := range before {
		spare -= max(0, len(w.set(d, revision))-min(before[revision], d.sets[revision])) // they are leaving
	}
	for _, sick := range []bool{true, false} {
		for _, revision := range d.old() {
			replicas, ready, present := d.sets[revision], w.available(d, revision), len(w.set(d, revision))
			down := replicas
			if sick {
				down = max(0, replicas-ready)
			}
			left := replicas - max(0, min(down, spare))
			if ready > 0 && left < min(replicas, present) { // the MachineSet may delete those that are available first
				left = min(replicas, max(left, present-max(0, available-least)))
				available -= min(ready, max(0, present-left))
			}
			d.sets[revision] = left
			spare -= replicas - left
		}
	}
	w.unlock(d, before)
}

// unlock is the way out if nothing moves any more because Machines of an older MachineSet are not available: it loses one.
func (w *world) unlock(d *deployment, before map[int]int) {
	for revision, replicas := range before {
		if d.sets[revision] != replicas || replicas != len(w.set(d, revision)) {
			return
		}
	}
	if w.available(d, d.revision) != d.sets[d.revision] {
		return
	}
	for _, revision := range d.old() {
		if w.available(d, revision) < d.sets[revision] {
			d.sets[revision]--
			return
		}
	}
}

// set returns the Machines of a MachineSet.
func (w *world) set(d *deployment, revision int) []*model {
	return filter(w.machines, func(m *model) bool { return m.deployment == d && m.revision == revision })
}

// available counts the Machines of a MachineSet that are Ready.
func (w *world) available(d *deployment, revision int) int {
	return len(filter(w.set(d, revision), w.ready))
}

// replicate is the MachineSet controller. Machines that are being deleted count, so they are replaced only when they are gone.
func (w *world) replicate(d *deployment) {
	for _, revision := range slices.Sorted(maps.Keys(d.sets)) {
		own := w.set(d, revision)
		for n := len(own); n < d.sets[revision]; n++ {
			name := w.name("m")
			w.machines = append(w.machines, &model{deployment: d, revision: revision,
				Machine: Machine{Name: name, Created: w.clock, Owner: d.name, DrainRules: rulesOf(d.name)}})
		}
		slices.SortStableFunc(own, func(a, b *model) int { return w.rank(a) - w.rank(b) })
		for i := range max(0, len(own)-d.sets[revision]) {
			if !own[i].Deleting {
				w.say("core deletes %s", own[i].Name)
				own[i].Deleting = true
			}
		}
	}
}

// rank is the order in which a MachineSet deletes Machines: those being deleted, annotated, unhealthy, the rest.
func (w *world) rank(m *model) int {
	switch {
	case m.Deleting:
		return 0
	case m.DeleteFirst:
		return 1
	case !w.ready(m):
		return 2
	}
	return 3
}

// reconcile is one pass of the Machine controller, or the end of one that read the Machine and its claim earlier. Core works on
// the objects that it read, and writes its changes to them.
func (w *world) reconcile(m *model) {
	if m.read == nil {
		w.read(m)
	}
	before, pass := *m.read, *m.read
	m.read = nil
	if pass.Claim.ProviderID != "" && !m.claimGone {
		pass.ProviderID = pass.Claim.ProviderID
	}
	if pass.NodeRef == "" && pass.ProviderID != "" {
		for _, n := range w.nodes {
			if n.ProviderID == pass.ProviderID {
				pass.NodeRef = n.Name
			}
		}
	}
	if n := w.named(pass.NodeRef); n != nil {
		n.LastOwner = pass.Owner
	}
	if pass.Deleting {
		w.reconcileDelete(m, &pass)
	}
	put(&m.ProviderID, before.ProviderID, pass.ProviderID)
	put(&m.NodeRef, before.NodeRef, pass.NodeRef)
	put(&m.AtPreTerminate, before.AtPreTerminate, pass.AtPreTerminate)
}

// read begins a pass of the Machine controller. Core has a watch for each kind, so what it reads of the PortalMachine may be older
// than the Machine.
func (w *world) read(m *model) {
	if m.known != m.Claim.ProviderID && rapid.Bool().Draw(w.t, "core's copy of the claim is new") {
		m.known = m.Claim.ProviderID
	}
	seen := m.Machine
	seen.Claim.ProviderID = m.known
	m.read = &seen
}

func (w *world) reconcileDelete(m *model, pass *Machine) {
	n := w.named(pass.NodeRef)
	if pass.NodeRef != "" && !pass.AtPreTerminate {
		if pass.PreDrain {
			return
		}
		if n != nil {
			n.Cordoned = true
			if n.blocked {
				return
			}
			n.busy = false
		}
	}
	if pass.PreTerminate {
		pass.AtPreTerminate = true
		return
	}
	m.claimGone = true
	if n != nil {
		if n.running {
			w.fail("core deletes Node %s of a machine that runs, with %s", pass.NodeRef, m.Name)
		}
		w.nodes = without(w.nodes, n)
	}
	w.say("%s is gone", m.Name)
	w.machines = without(w.machines, m)
}

// beSlow lets the provider act alone for a while amid a change.
func (w *world) beSlow(d *deployment) {
	if w.pool != nil && rapid.Bool().Draw(w.t, "of the pool") {
		w.changePool()
	} else {
		w.setReplicas(d)
		w.say("%s: replicas %d", d.name, d.replicas)
	}
	for range rapid.IntRange(0, 6).Draw(w.t, "laps") {
		w.lap()
	}
	w.say("core is slow")
	for range rapid.IntRange(1, 8).Draw(w.t, "passes") {
		w.clock = w.clock.Add(20 * time.Second)
		w.schedule()
		w.pass(-1)
	}
}
