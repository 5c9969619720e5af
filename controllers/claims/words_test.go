// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// node n1, n2, … is Ready, carries a providerID, and is younger the higher its number.
func node(name string, change ...func(*Node)) Node {
	var age int
	_, _ = fmt.Sscanf(name, "n%d", &age)
	n := Node{Name: name, UID: "uid-" + name, ProviderID: "cloud://" + name, Ready: true, Created: epoch.Add(time.Duration(age) * time.Minute)}
	for _, c := range change {
		c(&n)
	}
	return n
}

func notReady(n *Node) { n.Ready = false }
func fresh(n *Node)    { n.Created = epoch.Add(time.Hour) }
func doomed(n *Node)   { n.Doomed = true }
func cordoned(n *Node) { n.Cordoned = true }
func nameless(n *Node) { n.ProviderID = "" }
func reborn(n *Node)   { n.UID += "-again" }

// machine m1, m2, … holds the given node ("" for none) and is younger the higher its number.
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
func drained(m *Machine)  { m.Deleting, m.PreDrain, m.Drained, m.DrainedAt = true, false, true, epoch }
func justNow(m *Machine)  { m.DrainedAt = epoch.Add(time.Hour) }
func detached(m *Machine) {
	m.ClaimProviderID = ReleasedProviderID("c1", m.Name)
	m.Deleting = true
}
func shown(m *Machine)     { m.ProviderID = m.ClaimProviderID }
func kept(m *Machine)      { m.Deleting = false }
func blank(m *Machine)     { m.ProviderID, m.NodeRef = "", "" }
func claimGoes(m *Machine) { m.ClaimGoes = true }
func outdated(m *Machine)  { m.Outdated = true }
func marked(m *Machine)    { m.Marked = true }
func shielded(m *Machine)  { m.Shielded = true }
func unhealthy(m *Machine) { m.Unhealthy = true }
func foreign(m *Machine)   { m.Foreign = true }
func of(owner string) func(*Machine) {
	return func(m *Machine) { m.Owner, m.Set = owner, owner+"-1" }
}
func last(set string) func(*Node) { return func(n *Node) { n.LastSet = set } }

// was puts the Machine's nodeRef and providerID back to the node it held before, as core shows them for a moment.
func was(node string) func(*Machine) {
	return func(m *Machine) { m.NodeRef, m.ProviderID = node, "cloud://"+node }
}
func forgotten(m *Machine) { m.NodeRef = "" }

// summary writes a plan as a reader would.
func summary(p Plan) string {
	names := []string{"hooks", "name", "bind", "point", "drain", "detach", "forget", "let-go", "uncordon", "swap", "mark", "shield", "unshield"}
	var words []string
	for _, m := range p.Moves {
		word := names[m.Kind] + " " + m.Machine
		if m.Node.Name != "" {
			word += "/" + m.Node.Name
		}
		words = append(words, word)
	}
	if p.Scale {
		words = append(words, fmt.Sprintf("scale %d", p.Size))
	}
	return strings.Join(words, ", ")
}
