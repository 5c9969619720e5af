// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
		"bind: a new Node gets a minute to become Ready": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", notReady, fresh)}, Machines: []Machine{machine("m1", "")}},
			"",
		},
		"bind: a Node that does not become Ready is bound behind a shield, or it would be remediated for ever": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", notReady)}, Machines: []Machine{machine("m1", "")}},
			"hooks m1, shield m1, bind m1/n1",
		},
		"bind: Ready nodes first": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1", notReady), node("n2")}, Machines: []Machine{machine("m1", "")}},
			"hooks m1, bind m1/n2",
		},
		"the shield comes off when the node is Ready": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", shielded)}},
			"unshield m1",
		},
		"the shield stays on while the Machine still points at the node that it lost": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", shielded, was("n0"))}},
			"",
		},
		"a shield goes on while the portal changes which nodes there are": {
			View{Desired: 1, Size: 1, Operation: Replaces, Nodes: three[:1], Machines: []Machine{machine("m1", "n1")}},
			"shield m1",
		},
		"a shield does not go on when a MachineHealthCheck has decided already": {
			View{Desired: 1, Size: 1, Operation: Replaces, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", unhealthy)}},
			"",
		},
		"bind: a free node goes to the MachineDeployment that held it last": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1", last("b-1")), node("n2", last("a-1"))},
				Machines: []Machine{machine("m1", "", of("a")), machine("m2", "", of("b"))}},
			"hooks m1, bind m1/n2, hooks m2, bind m2/n1",
		},
		"takeover: the new Machine beyond the number of workers shares the node of an outdated one": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), outdated), machine("m2", "n2", of("a"), outdated), machine("m3", "", of("a"))}},
			"mark m1, hooks m3, bind m3/n1",
		},
		"takeover, next: nothing while core deletes the marked one": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), outdated, marked), machine("m2", "n2", of("a"), outdated), machine("m3", "n1", of("a"))}},
			"",
		},
		"takeover, then: the marked one is held, shares its node, and is released": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), outdated, marked, deleting), machine("m2", "n2", of("a"), outdated), machine("m3", "n1", of("a"))}},
			"detach m1/n1",
		},
		"takeover: only within the same MachineDeployment": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", of("a"), outdated), machine("m3", "", of("b"))}},
			"",
		},
		"takeover: not of a Machine that is up to date": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", of("a")), machine("m3", "", of("a"))}},
			"",
		},
		"takeover: not while nodes are on order for the new Machine": {
			View{Desired: 2, Size: 2, Operation: AddsNodes, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", of("a"), outdated, shielded), machine("m3", "", of("a"))}},
			"",
		},
		"takeover by two, with a surge of two": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), outdated), machine("m2", "n2", of("a"), outdated), machine("m3", "", of("a")), machine("m4", "", of("a"))}},
			"mark m1, hooks m3, bind m3/n1, mark m2, hooks m4, bind m4/n2",
		},
		"swap: the held Machine is not on the newest node, so the one that is moves over": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n3")}},
			"bind m3/n1",
		},
		"swap, where the portal is seen to remove the oldest: the Machine that holds that one moves over": {
			View{Desired: 2, Size: 3, Order: OldestFirst, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", deleting)}},
			"bind m1/n3",
		},
		"no swap where nobody can tell which node goes": {
			View{Desired: 2, Size: 3, Order: NoOrder, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n3")}},
			"drain m1/n1",
		},
		"no swap between nodes of the same second: the one is as likely to go as the other, and would be taken back": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2", fresh), node("n3", fresh)}, Machines: []Machine{machine("m1", "n1"), machine("m2", ""), machine("m3", "n3", deleting)}},
			"drain m3/n3, hooks m2, bind m2/n2",
		},
		"swap, next: the held one takes the node that is free now": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n1", was("n3"))}},
			"swap m1/n3",
		},
		"swap, to a node that is not Ready, interrupted after the shield: it stays on": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1", notReady), three[1], three[2]}, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n3", shielded)}},
			"bind m3/n1",
		},
		"swap, next: a node that stays after all loses the autoscaler's taint first": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1", doomed), three[1], three[2]}, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n1", was("n3"))}},
			"uncordon m1/n1, swap m1/n3",
		},
		"swap, then: wait until both Machines show it": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n3", deleting, was("n1")), machine("m2", "n2"), machine("m3", "n1", was("n3"))}},
			"",
		},
		"swap, then: nodeRefs": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{
				machine("m1", "n3", deleting, func(m *Machine) { m.NodeRef = "n1" }), machine("m2", "n2"), machine("m3", "n1", func(m *Machine) { m.NodeRef = "n3" })}},
			"point m1/n3, point m3/n1",
		},
		"swap, then: drain": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n3", deleting), machine("m2", "n2"), machine("m3", "n1")}},
			"drain m1/n3",
		},
		"swap, and others are drained already: they wait, for one call for all": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n3", drained, justNow)}},
			"bind m2/n1",
		},
		"swap, on the way to the node that it is to go with: they still wait": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n2", deleting, was("n1")), machine("m2", "n1", was("n2")), machine("m3", "n3", drained, justNow)}},
			"",
		},
		"a drain that has just ended, of which core has not written the time yet: it waits for the others": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", draining), machine("m3", "n3", drained, func(m *Machine) { m.DrainedAt = time.Time{} })}},
			"",
		},
		"swap interrupted, and the surplus is gone: released, the live Machine keeps the node": {
			View{Desired: 3, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n1", was("n3"))}},
			"detach m1/n1",
		},
		"released: a node that the autoscaler wanted gone loses its taint": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", doomed)}, Machines: []Machine{machine("m1", "n1", detached, shown, forgotten)}},
			"uncordon m1/n1",
		},
		"released: a node that seems to be gone is made schedulable all the same": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1"), node("n2", cordoned, notReady)}, Machines: []Machine{
				machine("m1", "n1"), machine("m2", "n2", detached, shown, forgotten, func(m *Machine) { m.PreDrain = false })}},
			"uncordon m2/n2",
		},
		"refused scale down: what was drained for it is released": {
			View{Desired: 2, Size: 3, DownRefused: true, Nodes: []Node{node("n1"), node("n2"), node("n3", cordoned)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"detach m3/n3",
		},
		"a drain that blocks: all wait where nobody can tell which node goes": {
			View{Desired: 1, Size: 3, Order: NoOrder, Now: epoch.Add(2 * time.Hour), Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", draining), machine("m3", "n3", drained)}},
			"",
		},
		"a drain that blocks: after a minute those before it go": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", draining), machine("m3", "n3", drained)}},
			"scale 2",
		},
		"a drain that blocks holds those behind it": {
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", drained), machine("m3", "n3", draining)}},
			"",
		},
		"a template that the portal cannot honour: nothing moves": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", outdated), machine("m2", "n2", deleting), machine("m3", "", foreign)}},
			"",
		},
		"that template is reverted: its Machine is outdated now, and core deletes it; the rest goes on": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", deleting), machine("m3", "", foreign, outdated)}},
			"detach m2/n2",
		},
		"a template that the portal cannot honour: what was released before goes on, core waits for it": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", detached, shown), machine("m3", "", foreign)}},
			"forget m1",
		},
		"no scale while the fate of a drained node is unknown": {
			View{Desired: 4, Size: 2, Before: Sight(three), Nodes: []Node{node("n1"), node("n2"), node("n3", cordoned)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained, justNow)}},
			"detach m3/n3",
		},
		"the fate of a drained node is no question where the portal was not asked to remove one: somebody has added a node": {
			View{Desired: 1, Size: 2, Nodes: []Node{node("n1"), node("n2"), node("n3", cordoned)},
				Machines: []Machine{machine("m1", "n1"), machine("m3", "n3", drained)}},
			"scale 1",
		},
		"nor is it after five minutes": {
			View{Desired: 1, Size: 2, Before: Sight(three), Nodes: []Node{node("n1"), node("n2"), node("n3", cordoned)},
				Machines: []Machine{machine("m1", "n1"), machine("m3", "n3", drained)}},
			"scale 1",
		},
		"an adopted cluster with more nodes than are wanted: a Machine that is deleted is released, and nothing scaled": {
			View{Desired: 1, Size: -1, Adopted: true, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", deleting)}},
			"detach m1/n1",
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
			View{Desired: 5, Size: 3, Operation: AddsNodes, Nodes: three, Machines: threeBound},
			"shield m1, shield m2, shield m3",
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
			View{Desired: 1, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", draining), machine("m3", "n3", drained, justNow)}},
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
			"detach m3/n3",
		},
		"the portal removes nodes: drained Machines are left until it has finished": {
			View{Desired: 2, Size: 2, Operation: RemoveNodes, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", shielded), machine("m2", "n2", drained), machine("m3", "n3", shielded)}},
			"",
		},
		"the node of a drained Machine is gone: released, for the next node may have its name": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"detach m3",
		},
		"the Node object of the removed machine stays behind, not Ready: core deletes it with the Machine": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1"), node("n2"), node("n3", notReady)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"let-go m3",
		},
		"let go of, and core has not finished yet": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1"), node("n2"), node("n3", notReady)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained, func(m *Machine) { m.PreTerminate = false })}},
			"",
		},
		"it stays behind while the portal works: a machine may come that takes it over": {
			View{Desired: 2, Size: 2, Operation: Replaces, Nodes: []Node{node("n1"), node("n2"), node("n3", notReady)},
				Machines: []Machine{machine("m1", "n1", shielded), machine("m2", "n2", shielded), machine("m3", "n3", drained)}},
			"",
		},
		"a Machine with hooks that never had a node is deleted: let it go": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1"),
				machine("m2", "", deleting, func(m *Machine) { m.PreDrain, m.PreTerminate = true, true })}},
			"let-go m2",
		},
		"surprise: the portal took n1, the drained m3 gives its node to m1": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n2"), node("n3", cordoned)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", drained)}},
			"detach m3/n3",
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
		"released before the Machine shows any providerID: wait as well, core may be about to write the node's": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, blank)}},
			"",
		},
		"released so, and somebody has deleted the PortalMachine: core takes nothing over any more": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, blank, claimGoes)}},
			"let-go m1",
		},
		"moved or restored, a Machine that was being deleted is not any more: it is bound anew, and its node is not drained any longer": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1", cordoned), node("n2")}, Machines: []Machine{
				machine("m1", "n1", draining, detached, kept), machine("m2", "n2")}},
			"uncordon m1/n1, hooks m1, bind m1/n1",
		},
		"moved or restored while it was being drained": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1", draining, kept)}},
			"uncordon m1/n1, hooks m1",
		},
		"moved or restored, and the portal is removing nodes: whether this one goes is seen when it has finished": {
			View{Desired: 1, Size: 1, Operation: RemoveNodes, Nodes: []Node{node("n1", cordoned), node("n2")}, Machines: []Machine{
				machine("m1", "n1", draining, kept, shielded), machine("m2", "n2", shielded)}},
			"",
		},
		"held, and the Machine does not name its node yet: core sets that, or would not know what to drain": {
			View{Desired: 0, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", deleting, blank)}},
			"",
		},
		"a node that somebody has cordoned stays so": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1")}},
			"",
		},
		"released and shown: nodeRef goes first": {
			View{Desired: 0, Size: 0, Machines: []Machine{machine("m1", "n1", detached, shown)}},
			"forget m1",
		},
		"released and forgotten: the node that was being drained is made schedulable again": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1", drained, detached, shown, forgotten), machine("m2", "n1")}},
			"uncordon m1/n1",
		},
		"released without a drain: a node that somebody has cordoned stays so": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1", detached, shown, forgotten), machine("m2", "n1")}},
			"let-go m1",
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
			test.view.ClusterID, test.view.Takeovers, test.view.Now = "c1", true, epoch.Add(time.Hour)
			if diff := cmp.Diff(test.want, summary(Make(test.view))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
