// SPDX-License-Identifier: Apache-2.0

package claims

// carryOut does one write, and reports whether its object still exists.
func (w *world) carryOut(write Write) bool {
	w.say("%s: %s", write.brief(), write.Why)
	if write.Why == "" || len(write.Moves()) == 0 && write.Step != DrainNode {
		w.fail("%s has the reason %q, and the moves %q", write.brief(), write.Why, write.Moves())
	}
	switch write.Step {
	case WriteList:
		return w.carryOutList(write.List)
	case WriteNode, DrainNode, DeleteNode:
		return w.carryOutNode(write)
	}
	m, seen, want := w.machine(write.Machine.Seen.Name), write.Machine.Seen, write.Machine.Want
	if m == nil {
		return false
	}
	switch write.Step {
	case WriteMachine:
		w.annotate(m, seen, want)
	case WriteClaim:
		w.bind(m, seen, want)
	case WriteNodeRef:
		m.NodeRef = want.NodeRef
	}
	return true
}

// annotate writes the annotations of a Machine.
func (w *world) annotate(m *model, seen, want Machine) {
	n := w.node(seen.Claim.UID)
	if seen.PreDrain && !want.PreDrain && want.PreTerminate && n != nil && n.ruler != "" && n.ruler != m.Owner {
		w.fail("core drains %s, which %s held last, by the rules of %s", n.Name, n.ruler, m.Owner)
	}
	if want.PreDrain != seen.PreDrain {
		m.PreDrain = want.PreDrain && !m.Deleting
	}
	if want.PreTerminate != seen.PreTerminate {
		m.PreTerminate = want.PreTerminate && !m.Deleting
	}
	m.DeleteFirst = m.DeleteFirst || want.DeleteFirst
}

// bind writes the claim of a Machine.
func (w *world) bind(m *model, seen, want Machine) {
	if IsReleased(want.Claim.ProviderID) {
		m.known, m.Claim.ProviderID = m.Claim.ProviderID, want.Claim.ProviderID
		return
	}
	n := w.node(want.Claim.UID)
	if n != nil && n.Uninitialized {
		w.fail("%s gets %s, which is not initialized", m.Name, n.Name)
	}
	if seen.Deleting || !m.Deleting {
		m.known = m.Claim.ProviderID
		m.Claim.Name, m.Claim.UID, m.Claim.ProviderID = want.Claim.Name, want.Claim.UID, want.Claim.ProviderID
	}
	if n != nil && !m.Deleting {
		n.ruler = m.Owner
	}
}

func (w *world) carryOutNode(write Write) bool {
	seen, want := write.Node.Seen, write.Node.Want
	n := w.node(seen.UID)
	if n == nil {
		return w.named(seen.Name) == nil && want.ProviderID == seen.ProviderID
	}
	switch {
	case write.Step == DrainNode:
		w.evict(n)
		return true
	case write.Step == DeleteNode && n.running:
		w.fail("the provider deletes Node %s of a machine that runs", n.Name)
	case write.Step == DeleteNode:
		w.nodes = without(w.nodes, n)
		return true
	}
	switch {
	case want.ProviderID != seen.ProviderID && w.ids:
		w.fail("the provider gives %s a providerID, and the portal can never correct it", n.Name)
	case want.DrainState != seen.DrainState && !want.Cordoned && w.operation == RemovingNodes && len(w.running()) > w.target:
		w.fail("%s is made schedulable while the portal removes nodes", n.Name)
	}
	put(&n.ProviderID, seen.ProviderID, want.ProviderID)
	put(&n.DrainState, seen.DrainState, want.DrainState)
	put(&n.DrainRules, seen.DrainRules, want.DrainRules)
	put(&n.BatchNoted, seen.BatchNoted, want.BatchNoted)
	put(&n.ScaleDownDisabled, seen.ScaleDownDisabled, want.ScaleDownDisabled)
	return true
}
