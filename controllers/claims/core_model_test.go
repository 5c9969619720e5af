// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
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

// roll is the MachineDeployment controller. It creates new Machines within the surge, and deletes old ones when enough are
// available.
func (w *world) roll(d *deployment) {
	total, available := 0, 0
	for revision, replicas := range d.sets {
		total += replicas
		available += len(w.set(d, revision)) - w.unready(d, revision)
	}
	fresh := len(w.set(d, d.revision)) - w.unready(d, d.revision)
	d.sets[d.revision] = min(d.replicas, d.sets[d.revision]+max(0, d.replicas+d.surge-total))
	least := max(0, d.replicas-(1-d.surge)) // available at any time
	spare := total - w.leaving(d) - least - max(0, d.sets[d.revision]-fresh)
	for _, sick := range []bool{true, false} {
		if !sick {
			spare = min(spare, available-least)
		}
		for _, revision := range slices.Sorted(maps.Keys(d.sets)) {
			if revision == d.revision {
				continue
			}
			down := max(0, min(d.sets[revision], spare))
			if sick {
				down = min(down, w.unready(d, revision))
			}
			d.sets[revision] -= down
			spare -= down
		}
	}
}

// leaving counts the Machines beyond the number that their MachineSets want. They are being deleted, and until they are gone, the
// MachineDeployment deletes no further ones instead.
func (w *world) leaving(d *deployment) (n int) {
	for revision, replicas := range d.sets {
		n += max(0, len(w.set(d, revision))-replicas)
	}
	return n
}

// set returns the Machines of a MachineSet.
func (w *world) set(d *deployment, revision int) []*model {
	return filter(w.machines, func(m *model) bool { return m.deployment == d && m.revision == revision })
}

func (w *world) unready(d *deployment, revision int) int {
	return len(filter(w.set(d, revision), func(m *model) bool { return !w.ready(m) }))
}

// remediate is a MachineHealthCheck with short timeouts.
func (w *world) remediate() {
	for _, m := range w.machines {
		n := w.named(m.NodeRef)
		if n == nil || !n.sick || m.Deleting || m.Shielded {
			continue
		}
		w.say("health check deletes %s on %s", m.Name, m.NodeRef)
		m.Deleting = true
		if m.ClaimNodeUID != n.UID || m.revision != m.deployment.revision {
			continue // it is on its way to another node, or gives this one to a newer Machine
		}
		m.Unhealthy = true
		n.replaced++
		if n.replaced > 1 && w.size == w.desired() {
			w.fail("%s costs Machine number %d", m.NodeRef, n.replaced)
		}
	}
}

// replicate is the MachineSet controller. Machines that are being deleted count, so they are replaced only when they are gone.
func (w *world) replicate(d *deployment) {
	for _, revision := range slices.Sorted(maps.Keys(d.sets)) {
		own := w.set(d, revision)
		for n := len(own); n < d.sets[revision]; n++ {
			name := w.name("m")
			set := fmt.Sprintf("%s-%d", d.name, revision)
			w.machines = append(w.machines, &model{deployment: d, revision: revision,
				Machine: Machine{Name: name, Created: w.clock, Owner: d.name, MachineSet: set, DrainRules: rulesOf(d.name)}})
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
	if pass.ClaimProviderID != "" && !m.claimGone {
		pass.ProviderID = pass.ClaimProviderID
	}
	if pass.NodeRef == "" && pass.ProviderID != "" {
		for _, n := range w.nodes {
			if n.ProviderID == pass.ProviderID {
				pass.NodeRef = n.Name
			}
		}
	}
	if n := w.named(pass.NodeRef); n != nil {
		n.LastMachineSet = pass.MachineSet
	}
	if pass.Deleting {
		w.reconcileDelete(m, &pass)
	}
	put(&m.ProviderID, before.ProviderID, pass.ProviderID)
	put(&m.NodeRef, before.NodeRef, pass.NodeRef)
	put(&m.Drained, before.Drained, pass.Drained)
}

// read begins a pass of the Machine controller. Core has a watch for each kind, so what it reads of the PortalMachine may be older
// than the Machine.
func (w *world) read(m *model) {
	if m.known != m.ClaimProviderID && rapid.Bool().Draw(w.t, "core's copy of the claim is new") {
		m.known = m.ClaimProviderID
	}
	seen := m.Machine
	seen.ClaimProviderID = m.known
	m.read = &seen
}

func (w *world) reconcileDelete(m *model, pass *Machine) {
	n := w.named(pass.NodeRef)
	if pass.NodeRef != "" && !pass.Drained {
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
		pass.Drained = true
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
