// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
func drained(m *Machine)  { m.Deleting, m.PreDrain, m.Drained = true, false, true }
func detached(m *Machine) {
	m.ClaimNode, m.ClaimNodeUID, m.ClaimProviderID = "", "", ReleasedProviderID("c1", m.Name)
	m.Deleting = true
}
func shown(m *Machine)     { m.ProviderID = m.ClaimProviderID }
func forgotten(m *Machine) { m.NodeRef = "" }

// summary writes a plan as a reader would.
func summary(p Plan) string {
	names := []string{"hooks", "name", "bind", "point", "drain", "detach", "forget", "let-go", "uncordon"}
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

func TestPlan(t *testing.T) {
	three := []Node{node("n1"), node("n2"), node("n3")}
	threeBound := []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3")}
	tests := map[string]struct {
		view View
		want string
	}{
		"quiet": {
			View{Desired: 3, Size: 3, Nodes: three, Machines: threeBound},
			"",
		},
		"bind: hooks first, then the identity of the oldest free node to the oldest Machine": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m2", ""), machine("m1", "")}},
			"hooks m1, bind m1/n1, hooks m2, bind m2/n2",
		},
		"bind: a Node without providerID gets one": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", nameless)}, Machines: []Machine{machine("m1", "")}},
			"hooks m1, name m1/n1, bind m1/n1",
		},
		"bind: a Node that is not Ready is left alone": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", notReady)}, Machines: []Machine{machine("m1", "")}},
			"",
		},
		"bind: never a Machine that is being deleted": {
			View{Desired: 0, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "", deleting)}},
			"scale 0",
		},
		"bind: not while the portal removes or replaces nodes": {
			View{Desired: 1, Size: 1, Operation: Replaces, Nodes: three[:1], Machines: []Machine{machine("m1", "")}},
			"",
		},
		"bind: yes while it adds nodes": {
			View{Desired: 3, Size: 3, Operation: AddsNodes, Nodes: three[:1], Machines: []Machine{machine("m1", "")}},
			"hooks m1, bind m1/n1",
		},
		"bind interrupted after the hooks": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "", func(m *Machine) { m.PreDrain, m.PreTerminate = true, true })}},
			"bind m1/n1",
		},
		"hooks taken off by somebody come back": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", func(m *Machine) { m.PreDrain = false })}},
			"hooks m1",
		},
		"scale up at once": {
			View{Desired: 5, Size: 3, Nodes: three, Machines: threeBound},
			"scale 5",
		},
		"scale up only to what is desired, not to what was accepted already": {
			View{Desired: 5, Size: 5, Nodes: three, Machines: threeBound},
			"",
		},
		"nothing is asked while an operation runs": {
			View{Desired: 5, Size: 3, Operation: Replaces, Nodes: three, Machines: threeBound},
			"",
		},
		"size not known: the Nodes are counted": {
			View{Desired: 5, Size: -1, Nodes: three, Machines: threeBound},
			"scale 5",
		},
		"size not known, and right": {
			View{Desired: 3, Size: -1, Nodes: three, Machines: threeBound},
			"",
		},
		"scale down waits for the MachineSet to pick its Machines": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: threeBound},
			"",
		},
		"held with a surplus: drain": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", deleting)}},
			"drain m3/n3",
		},
		"held without a surplus: release at once": {
			View{Desired: 3, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", deleting)}},
			"detach m3/n3",
		},
		"more held than surplus: the newest drain, the others are released": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n3", deleting)}},
			"drain m3/n3, detach m1/n1",
		},
		"draining: the portal is not asked yet": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", draining), machine("m3", "n3", drained)}},
			"",
		},
		"all drained: one call for all": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", drained), machine("m3", "n3", drained)}},
			"scale 1",
		},
		"drained, and one more Machine is still to be picked: not below what live Machines hold": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"scale 2",
		},
		"scale up cancels a drain that was not sent": {
			View{Desired: 3, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", cordoned)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", draining)}},
			"detach m3/n3, uncordon m3/n3",
		},
		"the portal removes nodes: drained Machines are left until it has finished": {
			View{Desired: 2, Size: 2, Operation: RemoveNodes, Nodes: three[:2], Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", drained), machine("m3", "n3")}},
			"",
		},
		"the node of a drained Machine is gone: let it go": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"let-go m3",
		},
		"the Node object of the removed machine stays behind, not Ready": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1"), node("n2"), node("n3", notReady)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"let-go m3",
		},
		"surprise: the portal took n1, the drained m3 gives its node to m1": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n2"), node("n3", cordoned)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"detach m3/n3, uncordon m3/n3",
		},
		"surprise, next pass: m1 is bound to the node that is free now": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n2"), node("n3")},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", detached)}},
			"bind m1/n3",
		},
		"the Machine's nodeRef follows once the Machine shows the new providerID": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n3")}, Machines: []Machine{machine("m1", "n3", func(m *Machine) { m.NodeRef = "n1" })}},
			"point m1/n3",
		},
		"released: wait until the Machine shows it": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached)}},
			"",
		},
		"released and shown: nodeRef goes first": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, shown)}},
			"forget m1",
		},
		"released and forgotten: the hooks go in a later write": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, shown, forgotten)}},
			"let-go m1",
		},
		"a Node of the same name but another UID is another Node: never deleted with the Machine": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", reborn)}, Machines: []Machine{machine("m1", "n1", drained)}},
			"detach m1",
		},
		"the portal replaced a node under its name: its Machine takes it again": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", reborn)}, Machines: []Machine{machine("m1", "n1")}},
			"bind m1/n1",
		},
		"a node without a Machine goes when nobody is to have it": {
			View{Desired: 1, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1")}},
			"scale 1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.view.ClusterID = "c1"
			if diff := cmp.Diff(test.want, summary(Make(test.view))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
