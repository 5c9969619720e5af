// SPDX-License-Identifier: Apache-2.0

package claims

import "testing"

// TestRelease checks how a Machine that is being deleted gives its node back.
func TestRelease(t *testing.T) {
	rules{
		"released: a node that the autoscaler wanted gone loses its taint": {see("1/1 n1:tainted m1/n1:detached:shown:forgotten"), "uncordon n1"},
		"released: a node that seems to be gone is made schedulable all the same": {
			see("1/1 n1 n2:cordoned:notReady m1/n1 m2/n2:detached:shown:forgotten:noPreDrain"), "uncordon n2",
		},
		"a Machine that is deleted gives up a node that stays: its rules for a drain are noted": {
			see("1/1 n1 m1/n1:deleting:ruled=a"), "note n1, detach m1",
		},
		"so does a live Machine that moves, but not one whose node another Machine takes over": {
			see("1/2 Newest n1 n2 m2/n2:ruled=b"), "note n2, bind m2/n1",
		},
		"only a Machine of the same MachineDeployment takes the node: core drains by the rules of the Machine": {
			see("2/3 n1 n2 n3 m1/n1:of=a:deleting m2/n2:of=b:deleting m3/n3:of=b"), "detach m1, bind m3/n2",
		},
		"no held Machine is of that MachineDeployment: released, and the live Machine moves to its node": {
			see("1/2 n1 n2 m1/n1:of=a:deleting:ruled=a m2/n2:of=b"), "note n1, detach m1",
		},
		"then the provider drains the node, by the rules of its last Machine": {see("1/2 n1 n2 m2/n2:of=b:ruled=b"), "note n2, bind m2/n1"},
		"core skipped the drain of a Machine whose PortalMachine was being deleted: its node, which a user had cordoned, does not count as drained": {
			see("0/1 n1:cordoned m1/n1:skipped"), "detach m1",
		},
		"scale down again after a refusal: the drained node is still drained": {see("2/3 n1 n2 n3:gone m1/n1 m2/n2"), "scale 2"},
		"an adopted cluster with more nodes than are wanted: a Machine that is deleted is released, and nothing scaled": {
			see("1/-1 adopted n1 n2 m1/n1:deleting"), "detach m1",
		},
		"more held than surplus: the newest drain, the others are released": {
			see("2/3 n1 n2 n3 m1/n1:deleting m2/n2 m3/n3:deleting"), "drain m3, detach m1",
		},
		"the node of a drained Machine is gone: released, for the next node may have its name": {
			see("2/2 n1 n2 m1/n1 m2/n2 m3/n3:drained"), "detach m3",
		},
		"released after core has drained its node, which stays: the nodeRef goes before the last hook, for core deletes the Node that it names": {
			see("1/1 n1:cordoned m1/n1:detached:shown:noPreDrain"), "forget m1",
		},
		"released before the Machine shows any providerID: wait as well, core may be about to write the node's": {
			see("0/0 m1/n1:detached:blank"), "",
		},
		"released so, and somebody has deleted the PortalMachine: core takes nothing over any more": {
			see("0/0 m1/n1:detached:blank:orphaned"), "remove-hooks m1",
		},
		"moved or restored, a Machine that was being deleted is not any more: it is bound anew, and its node is not drained any longer": {
			see("2/2 n1:cordoned n2 m1/n1:draining:detached:kept m2/n2"), "uncordon n1, hooks m1, bind m1/n1",
		},
		"moved or restored, and the portal is removing nodes: whether this one goes is seen when it has finished": {
			see("1/1 removing n1:cordoned n2 m1/n1:draining:kept:shielded m2/n2:shielded"), "",
		},
		"released without a drain: a node that somebody has cordoned stays so": {
			see("1/1 n1:cordoned m1/n1:detached:shown:forgotten m2/n1"), "remove-hooks m1",
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
		"more nodes than the portal was asked for, nothing is drained or asked until they are counted": {see("1/2 n1 n2 n3:gone m1/n1"), ""},
		"a Machine that moved to another node still shows the one that goes": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", func(m *Machine) { m.ProviderID, m.NodeRef = "cloud://n3", "n3" })}},
			"",
		},
		"scale up only to what is desired, not to what was accepted already": {see("5/5 n1 n2 n3 m1/n1 m2/n2 m3/n3"), ""},
		"nothing is asked while an operation runs":                           {see("5/3 adding n1 n2 n3 m1/n1 m2/n2 m3/n3"), ""},
		"size not known, and right":                                          {see("3/-1 n1 n2 n3 m1/n1 m2/n2 m3/n3"), ""},
		"scale down waits for the MachineSet to pick its Machines":           {see("1/3 n1 n2 n3 m1/n1 m2/n2 m3/n3"), ""},
		"draining: the portal is not asked yet":                              {see("1/3 n1 n2 n3:just m1/n1 m2/n2:draining"), ""},
		"scale up cancels a drain that was not sent":                         {see("3/3 n1 n2 n3:cordoned m1/n1 m2/n2 m3/n3:draining"), "detach m3"},
	}.check(t)
}

// TestShield checks when MachineHealthChecks are kept from remediating Machines.
func TestShield(t *testing.T) {
	rules{
		"the shield comes off when the node is Ready":                                 {see("1/1 n1 m1/n1:shielded"), "unshield m1"},
		"the shield stays on while the Machine still points at the node that it lost": {see("1/1 n1 m1/n1:shielded:was=n0"), ""},
		"a shield does not go on when a MachineHealthCheck has decided already":       {see("1/1 replacing n1 m1/n1:unhealthy"), ""},
		"a shield does not go on while the portal adds nodes":                         {see("2/2 adding n1 m1/n1"), ""},
		"the next Machine on it is shielded":                                          {see("1/1 n1:remediated m2"), "hooks+shield m2, bind m2/n1"},
		"so is a Machine on a node with a condition that a MachineHealthCheck names":  {see("1/1 n1:sick m2"), "hooks+shield m2, bind m2/n1"},
		"the shield stays while the condition does":                                   {see("1/1 n1:remediated:sick m2/n1:shielded"), ""},
	}.check(t)
}
