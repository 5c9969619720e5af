// SPDX-License-Identifier: Apache-2.0

package claims

import "testing"

// TestRelease checks how a Machine that is being deleted gives its node back.
func TestRelease(t *testing.T) {
	rules{
		"released: a node that the autoscaler wanted gone loses its taint": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", tainted)}, Machines: []Machine{machine("m1", "n1", detached, shown, forgotten)}},
			"uncordon n1",
		},
		"released: a node that seems to be gone is made schedulable all the same": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1"), node("n2", cordoned, notReady)}, Machines: []Machine{
				machine("m1", "n1"), machine("m2", "n2", detached, shown, forgotten, func(m *Machine) { m.PreDrain = false })}},
			"uncordon n2",
		},
		"a Machine that is deleted gives up a node that stays: its rules for a drain are noted": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", deleting, ruled("a"))}},
			"note n1, detach m1",
		},
		"so does a live Machine that moves, but not one whose node another Machine takes over": {
			View{Desired: 1, Size: 2, Order: Newest, Nodes: three[:2], Machines: []Machine{machine("m2", "n2", ruled("b"))}},
			"note n2, bind m2/n1",
		},
		"only a Machine of the same MachineDeployment takes the node: core drains by the rules of the Machine": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", of("a"), deleting), machine("m2", "n2", of("b"), deleting), machine("m3", "n3", of("b"))}},
			"detach m1, bind m3/n2",
		},
		"no held Machine is of that MachineDeployment: released, and the live Machine moves to its node": {
			View{Desired: 1, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), deleting, ruled("a")), machine("m2", "n2", of("b"))}},
			"note n1, detach m1",
		},
		"then the provider drains the node, by the rules of its last Machine": {
			View{Desired: 1, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m2", "n2", of("b"), ruled("b"))}},
			"note n2, bind m2/n1",
		},
		"core skipped the drain of a Machine whose PortalMachine was being deleted: its node, which a user had cordoned, does not count as drained": {
			View{Desired: 0, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1", skipped)}},
			"detach m1",
		},
		"scale down again after a refusal: the drained node is still drained": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2")}},
			"scale 2",
		},
		"an adopted cluster with more nodes than are wanted: a Machine that is deleted is released, and nothing scaled": {
			View{Desired: 1, Size: -1, Adopted: true, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", deleting)}},
			"detach m1",
		},
		"more held than surplus: the newest drain, the others are released": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n3", deleting)}},
			"drain m3, detach m1",
		},
		"the node of a drained Machine is gone: released, for the next node may have its name": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"detach m3",
		},
		"the hooks are removed, and core has not finished yet": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1"), node("n2")},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained, func(m *Machine) { m.PreTerminate = false })}},
			"",
		},
		"released after core has drained its node, which stays: the nodeRef goes before the last hook, for core deletes the Node that it names": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{
				machine("m1", "n1", detached, shown, func(m *Machine) { m.PreDrain = false })}},
			"forget m1",
		},
		"released: wait until the Machine shows it": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached)}},
			"",
		},
		"released before the Machine shows any providerID: wait as well, core may be about to write the node's": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, blank)}},
			"",
		},
		"released so, and somebody has deleted the PortalMachine: core takes nothing over any more": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, blank, orphaned)}},
			"remove-hooks m1",
		},
		"moved or restored, a Machine that was being deleted is not any more: it is bound anew, and its node is not drained any longer": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1", cordoned), node("n2")}, Machines: []Machine{
				machine("m1", "n1", draining, detached, kept), machine("m2", "n2")}},
			"uncordon n1, hooks m1, bind m1/n1",
		},
		"moved or restored while it was being drained": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1", draining, kept)}},
			"uncordon n1, hooks m1",
		},
		"moved or restored, and the portal is removing nodes: whether this one goes is seen when it has finished": {
			View{Desired: 1, Size: 1, Activity: RemovingNodes, Nodes: []Node{node("n1", cordoned), node("n2")}, Machines: []Machine{
				machine("m1", "n1", draining, kept, shielded), machine("m2", "n2", shielded)}},
			"",
		},
		"released and shown: nodeRef goes first": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, shown)}},
			"forget m1",
		},
		"released and forgotten: the node that was being drained is made schedulable again": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1", drained, detached, shown, forgotten), machine("m2", "n1")}},
			"uncordon n1",
		},
		"released without a drain: a node that somebody has cordoned stays so": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1", detached, shown, forgotten), machine("m2", "n1")}},
			"remove-hooks m1",
		},
		"released and forgotten: the hooks go in a later write": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, shown, forgotten)}},
			"remove-hooks m1",
		},
	}.check(t)
}

// TestSize checks when the portal is asked for another number of workers.
func TestSize(t *testing.T) {
	rules{
		"scale up although it is not seen yet which nodes are gone": {
			View{Desired: 4, Size: 2, Before: Snapshot(three), Nodes: []Node{node("n1"), node("n2"), node("n3", just)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2")}},
			"scale 4",
		},
		"more nodes than the portal was asked for, nothing is drained or asked until they are counted": {
			View{Desired: 1, Size: 2, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: []Machine{machine("m1", "n1")}},
			"",
		},
		"a Machine that moved to another node still shows the one that goes": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", func(m *Machine) { m.ProviderID, m.NodeRef = "cloud://n3", "n3" })}},
			"",
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
			View{Desired: 5, Size: 3, Activity: AddingNodes, Nodes: three, Machines: threeBound},
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
		"draining: the portal is not asked yet": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", just)}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", draining)}},
			"",
		},
		"scale up cancels a drain that was not sent": {
			View{Desired: 3, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", cordoned)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", draining)}},
			"detach m3",
		},
	}.check(t)
}

// TestShield checks when MachineHealthChecks are kept from remediating Machines.
func TestShield(t *testing.T) {
	rules{
		"the shield comes off when the node is Ready": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", shielded)}},
			"unshield m1",
		},
		"the shield stays on while the Machine still points at the node that it lost": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", shielded, was("n0"))}},
			"",
		},
		"a shield goes on while the portal changes which nodes there are": {
			View{Desired: 1, Size: 1, Activity: ReplacingNodes, Nodes: three[:1], Machines: []Machine{machine("m1", "n1")}},
			"shield m1",
		},
		"a shield does not go on when a MachineHealthCheck has decided already": {
			View{Desired: 1, Size: 1, Activity: ReplacingNodes, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", unhealthy)}},
			"",
		},
		"a shield does not go on while the portal adds nodes": {
			View{Desired: 2, Size: 2, Activity: AddingNodes, Nodes: three[:1], Machines: []Machine{machine("m1", "n1")}},
			"",
		},
		"a remediated Machine leaves a note on its node": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", deleting, unhealthy)}},
			"remediated n1, detach m1",
		},
		"the next Machine on it is shielded": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", remediated)}, Machines: []Machine{machine("m2", "")}},
			"hooks+shield m2, bind m2/n1",
		},
		"so is a Machine on a node with a condition that a MachineHealthCheck names": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", sick)}, Machines: []Machine{machine("m2", "")}},
			"hooks+shield m2, bind m2/n1",
		},
		"the shield stays while the condition does": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", remediated, sick)}, Machines: []Machine{machine("m2", "n1", shielded)}},
			"",
		},
		"and while the Machine shows one": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", remediated)}, Machines: []Machine{machine("m2", "n1", shielded, func(m *Machine) { m.HasUnhealthyCondition = true })}},
			"",
		},
		"then it ends, and the note is forgotten": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", remediated)}, Machines: []Machine{machine("m2", "n1", shielded)}},
			"forget-remediated n1, unshield m2",
		},
	}.check(t)
}
