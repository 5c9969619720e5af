// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// node returns Node n1, n2, … It is Ready, has a providerID, and is younger the higher its number.
func node(name string, change ...func(*Node)) Node {
	var age int
	_, _ = fmt.Sscanf(name, "n%d", &age)
	n := Node{Name: name, UID: "uid-" + name, ProviderID: "cloud://" + name, Batch: name, Ready: true, Created: epoch.Add(time.Duration(age) * time.Minute)}
	for _, c := range change {
		c(&n)
	}
	return n
}

func notReady(n *Node)   { n.Ready = false }
func fresh(n *Node)      { n.Created = epoch.Add(time.Hour) }
func tainted(n *Node)    { n.TaintedByAutoscaler = true }
func cordoned(n *Node)   { n.Cordoned = true }
func gone(n *Node)       { n.Cordoned, n.Drained = true, epoch }
func just(n *Node)       { n.Cordoned, n.Drained = true, epoch.Add(time.Hour) }
func evicting(n *Node)   { n.Cordoned, n.DrainStarted = true, epoch }
func sick(n *Node)       { n.HasUnhealthyCondition = true }
func remediated(n *Node) { n.Remediated = epoch }
func nameless(n *Node)   { n.ProviderID = "" }

// uninitialized is a Node that waits for the portal's cloud controller, which sets its providerID.
func uninitialized(n *Node) { n.ProviderID, n.Uninitialized = "", true }
func reborn(n *Node)        { n.UID += "-again" }

// machine returns Machine m1, m2, … It holds the given node ("" for none) and is younger the higher its number.
func machine(name, on string, change ...func(*Machine)) Machine {
	var age int
	_, _ = fmt.Sscanf(name, "m%d", &age)
	m := Machine{Name: name, Created: epoch.Add(time.Duration(age) * time.Minute)}
	if on != "" {
		m.PreDrain, m.PreTerminate = true, true
		m.ClaimNode, m.ClaimNodeUID, m.ClaimProviderID = on, "uid-"+on, "cloud://"+on
		m.ProviderID, m.NodeRef = m.ClaimProviderID, on
	}
	for _, c := range change {
		c(&m)
	}
	return m
}

func deleting(m *Machine) { m.Deleting = true }
func draining(m *Machine) { m.Deleting, m.PreDrain = true, false }
func drained(m *Machine)  { m.Deleting, m.PreDrain, m.Drained = true, false, true }
func skipped(m *Machine)  { m.Deleting, m.PreDrain, m.Drained, m.DrainSkipped = true, false, true, true }
func ruled(note string) func(*Machine) {
	return func(m *Machine) { m.DrainRules = note }
}
func detached(m *Machine) {
	m.ClaimProviderID = ReleasedProviderID("c1", m.Name)
	m.Deleting = true
}
func shown(m *Machine)     { m.ProviderID = m.ClaimProviderID }
func kept(m *Machine)      { m.Deleting = false }
func blank(m *Machine)     { m.ProviderID, m.NodeRef = "", "" }
func orphaned(m *Machine)  { m.PortalMachineDeleted = true }
func outdated(m *Machine)  { m.Outdated = true }
func first(m *Machine)     { m.DeleteFirst = true }
func shielded(m *Machine)  { m.Shielded = true }
func unhealthy(m *Machine) { m.Unhealthy = true }
func mismatch(m *Machine)  { m.TemplateMismatch = true }
func of(owner string) func(*Machine) {
	return func(m *Machine) { m.Owner, m.MachineSet = owner, owner+"-1" }
}
func last(set string) func(*Node) { return func(n *Node) { n.LastMachineSet = set } }

// was sets the Machine's nodeRef and providerID back to its previous node, as core shows them for a moment.
func was(node string) func(*Machine) {
	return func(m *Machine) { m.NodeRef, m.ProviderID = node, "cloud://"+node }
}
func forgotten(m *Machine) { m.NodeRef = "" }

// brief formats a write for a reader: all that it changes, and the object.
func (w Write) brief() string {
	m, n := w.Machine, w.Node
	switch w.Step {
	case WriteList:
		return strings.Join(append([]string{"list"}, w.List...), " ")
	case WriteNode:
		return nodeWords(n.Seen, n.Want) + " " + n.Seen.Name
	case WriteMachine:
		return machineWords(m.Seen, m.Want) + " " + m.Seen.Name
	case WriteClaim:
		return claimWords(m.Seen, m.Want)
	case WriteNodeRef:
		return strings.TrimSuffix(either(m.Want.NodeRef == "", "forget ", "point ")+m.Seen.Name+"/"+m.Want.NodeRef, "/")
	}
	return either(w.Step == DrainNode, "evict ", "delete ") + n.Seen.Name
}

func nodeWords(seen, want Node) string {
	var words changes
	words.add(seen.ProviderID != want.ProviderID, "name")
	words.add(seen.DrainState != want.DrainState, either(want.DrainState == DrainState{}, "uncordon", "mark"))
	words.add(seen.DrainRules != want.DrainRules, "note")
	words.add(seen.Batch != want.Batch, "batch")
	words.add(seen.Remediated != want.Remediated, either(want.Remediated.IsZero(), "forget-remediated", "remediated"))
	words.add(seen.ScaleDownDisabled != want.ScaleDownDisabled, either(want.ScaleDownDisabled, "protect", "unprotect"))
	return strings.Join(words, "+")
}

func machineWords(seen, want Machine) string {
	var words changes
	words.add(want.PreDrain && want.PreTerminate && !(seen.PreDrain && seen.PreTerminate), "hooks")
	words.add(seen.PreDrain && !want.PreDrain && want.PreTerminate == seen.PreTerminate, "drain")
	words.add(!want.PreDrain && seen.PreTerminate && !want.PreTerminate, "remove-hooks")
	words.add(seen.DeleteFirst != want.DeleteFirst, "delete-first")
	words.add(seen.Shielded != want.Shielded, either(want.Shielded, "shield", "unshield"))
	return strings.Join(words, "+")
}

func claimWords(seen, want Machine) string {
	if IsReleased(want.ClaimProviderID) {
		return "detach " + seen.Name
	}
	return either(seen.Deleting, "swap ", "bind ") + seen.Name + "/" + want.ClaimNode
}

// changes are the words of one write.
type changes []string

func (c *changes) add(differs bool, word string) {
	if differs {
		*c = append(*c, word)
	}
}

func either(yes bool, word, other string) string {
	if yes {
		return word
	}
	return other
}

// summary formats a plan for a reader.
func summary(p Plan) string {
	var words []string
	for _, w := range p.Writes {
		words = append(words, w.brief())
	}
	if p.Scale {
		words = append(words, fmt.Sprintf("scale %d", p.Size))
	}
	return strings.Join(words, ", ")
}
