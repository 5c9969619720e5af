// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// node returns Node n1, n2, … It is Ready, has a providerID, and is younger the higher its number.
func node(name string, change ...func(*Node)) Node {
	var age int
	_, _ = fmt.Sscanf(name, "n%d", &age)
	n := Node{Name: name, UID: "uid-" + name, ProviderID: "cloud://" + name, Ready: true, Created: epoch.Add(time.Duration(age) * time.Minute)}
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

var moveNames = map[MoveKind]string{
	AddHooks: "hooks", Bind: "bind", Swap: "swap", PointAtNode: "point", StartDrain: "drain", Detach: "detach", ForgetNode: "forget",
	RemoveHooks: "remove-hooks", DeleteFirst: "delete-first", Shield: "shield", Unshield: "unshield", NameNode: "name", DrainNode: "evict",
	MarkDrained: "mark", Uncordon: "uncordon", DeleteNode: "delete", NoteDrainRules: "note", MarkRemediated: "remediated", ForgetRemediated: "forget-remediated",
	DisableScaleDown: "protect", EnableScaleDown: "unprotect", AddToPool: "add-to-pool", RemoveFromPool: "remove-from-pool",
}

// String formats a move for a reader.
func (m Move) String() string {
	word := moveNames[m.Kind] + " " + m.Machine
	switch {
	case m.Machine == "":
		word += cmp.Or(m.Node.Name, m.Node.ProviderID)
	case m.Node.Name != "":
		word += "/" + m.Node.Name
	}
	return word
}

// summary formats a plan for a reader.
func summary(p Plan) string {
	var words []string
	for _, m := range p.Moves {
		words = append(words, m.String())
	}
	if p.Scale {
		words = append(words, fmt.Sprintf("scale %d", p.Size))
	}
	return strings.Join(words, ", ")
}
