// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rules are views of a cluster one hour after it was created, with the moves and the request that follow from them.
type rules map[string]struct {
	view View
	want string
}

func (r rules) check(t *testing.T) {
	t.Helper()
	for name, rule := range r {
		t.Run(name, func(t *testing.T) {
			rule.view.ClusterID, rule.view.Now = "c1", epoch.Add(time.Hour)
			if diff := cmp.Diff(rule.want, summary(Decide(rule.view))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var (
	three      = []Node{node("n1"), node("n2"), node("n3")}
	threeBound = []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3")}
)

// TestBind checks which node a Machine without one gets.
func TestBind(t *testing.T) {
	rules{
		"bind: hooks first, then the identity of the oldest free node to the oldest Machine": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m2", ""), machine("m1", "")}},
			"hooks m1, hooks m2, bind m1/n1, bind m2/n2",
		},
		"bind: a Node without providerID gets one": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", nameless)}, Machines: []Machine{machine("m1", "")}},
			"name n1, hooks m1, bind m1/n1",
		},
		"bind: a Node that the portal's cloud controller has not initialized gets no providerID, which could never be changed, and no Machine": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1", uninitialized), node("n2")}, Machines: []Machine{machine("m1", ""), machine("m2", "")}},
			"hooks m1, bind m1/n2",
		},
		"bind: nor after a minute, if it is not Ready": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", uninitialized, notReady)}, Machines: []Machine{machine("m1", "")}},
			"",
		},
		"bind: it is one of the workers, so no other one is added for it, and it is removed like others": {
			View{Desired: 1, Size: 2, Nodes: []Node{node("n1"), node("n2", uninitialized)}, Machines: []Machine{machine("m1", "n1")}},
			"evict n2",
		},
		"bind: a new Node gets a minute to become Ready": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", notReady, fresh)}, Machines: []Machine{machine("m1", "")}},
			"",
		},
		"bind: a Node that does not become Ready is bound behind a shield, or it would be remediated for ever": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", notReady)}, Machines: []Machine{machine("m1", "")}},
			"hooks+shield m1, bind m1/n1",
		},
		"bind: Ready nodes first": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1", notReady), node("n2")}, Machines: []Machine{machine("m1", "")}},
			"hooks m1, bind m1/n2",
		},
		"bind: a free node goes to the MachineDeployment that held it last": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1", last("b-1")), node("n2", last("a-1"))},
				Machines: []Machine{machine("m1", "", of("a")), machine("m2", "", of("b"))}},
			"hooks m1, hooks m2, bind m1/n2, bind m2/n1",
		},
		"bind: never a Machine that is being deleted": {
			View{Desired: 0, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "", deleting)}},
			"evict n1",
		},
		"bind: not while the portal removes nodes": {
			View{Desired: 1, Size: 1, Activity: RemovingNodes, Target: 1, Nodes: three[:2], Machines: []Machine{machine("m1", "")}},
			"",
		},
		"bind: yes while it adds nodes": {
			View{Desired: 3, Size: 3, Activity: AddingNodes, Nodes: three[:1], Machines: []Machine{machine("m1", "")}},
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
		"bind: during an upgrade to a Ready node only": {
			View{Desired: 2, Size: 2, Activity: ReplacingNodes, Nodes: []Node{node("n1", notReady), node("n2")}, Machines: []Machine{machine("m1", ""), machine("m2", "")}},
			"hooks m1, bind m1/n2",
		},
		"bind: not to a node that goes, nor to one that is drained": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1", evicting), node("n2"), node("n3", gone)}, Machines: []Machine{machine("m1", "")}},
			"uncordon n1, evict n2",
		},
	}.check(t)
}

// TestTakeover checks how new Machines of a rolling update take over the nodes of old ones.
func TestTakeover(t *testing.T) {
	rules{
		"takeover: the new Machine beyond the number of workers shares the node of an outdated one": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), outdated), machine("m2", "n2", of("a"), outdated), machine("m3", "", of("a"))}},
			"delete-first m1, hooks m3, bind m3/n1",
		},
		"takeover, next: nothing while core deletes the marked one": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), outdated, first), machine("m2", "n2", of("a"), outdated), machine("m3", "n1", of("a"))}},
			"",
		},
		"takeover, then: the marked one is held, shares its node, and is released": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), outdated, first, deleting), machine("m2", "n2", of("a"), outdated), machine("m3", "n1", of("a"))}},
			"detach m1",
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
			View{Desired: 2, Size: 2, Activity: AddingNodes, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", of("a"), outdated), machine("m3", "", of("a"))}},
			"",
		},
		"takeover by two, with a surge of two": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", of("a"), outdated), machine("m2", "n2", of("a"), outdated), machine("m3", "", of("a")), machine("m4", "", of("a"))}},
			"delete-first m1, delete-first m2, hooks m3, hooks m4, bind m3/n1, bind m4/n2",
		},
	}.check(t)
}

// TestSwap checks how a Machine that is being deleted gets the node that the portal will remove.
func TestSwap(t *testing.T) {
	rules{
		"swap: the held Machine is not on the newest node, so the one that is moves over": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n3")}},
			"bind m3/n1",
		},
		"swap, where the portal is seen to remove the oldest: the Machine that holds that one moves over": {
			View{Desired: 2, Size: 3, Order: Oldest, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", deleting)}},
			"bind m1/n3",
		},
		"no swap where nobody can tell which node goes": {
			View{Desired: 2, Size: 3, Order: Random, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n3")}},
			"drain m1",
		},
		"no swap between nodes of the same second: the one is as likely to go as the other, and would be taken back": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2", fresh), node("n3", fresh)}, Machines: []Machine{machine("m1", "n1"), machine("m2", ""), machine("m3", "n3", deleting)}},
			"hooks m2, drain m3, bind m2/n2",
		},
		"swap: a held Machine takes no node that is not initialized. The provider drains it, and the Machine's node stays": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", uninitialized)}, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2")}},
			"detach m1, evict n3",
		},
		"swap: a Machine whose node goes does not move to a node that is not initialized": {
			View{Desired: 1, Size: 2, Order: Newest, Nodes: []Node{node("n1", uninitialized), node("n2")}, Machines: []Machine{machine("m2", "n2")}},
			"",
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
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1", tainted), three[1], three[2]}, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n1", was("n3"))}},
			"uncordon n1, swap m1/n3",
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
			"drain m1",
		},
		"swap, and others are drained already: they wait, for one request for all": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", just)}, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2")}},
			"bind m2/n1",
		},
		"swap, on the way to the node that it is to go with: they still wait": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", just)}, Machines: []Machine{machine("m1", "n2", deleting, was("n1")), machine("m2", "n1", was("n2"))}},
			"",
		},
		"swap interrupted, and the surplus is gone: released, the live Machine keeps the node": {
			View{Desired: 3, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1", deleting), machine("m2", "n2"), machine("m3", "n1", was("n3"))}},
			"detach m1",
		},
	}.check(t)
}

// TestLeaving checks which nodes are removed, and what happens to them before.
func TestLeaving(t *testing.T) {
	rules{
		"quiet": {
			View{Desired: 3, Size: 3, Nodes: three, Machines: threeBound},
			"",
		},
		"a drain that blocks: all wait if the order of removal is not known": {
			View{Desired: 1, Size: 3, Order: Random, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", draining)}},
			"",
		},
		"a drain that blocks: after a minute those before it go": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", draining)}},
			"scale 2",
		},
		"a drain that blocks holds those behind it": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", gone), node("n3")}, Machines: []Machine{machine("m1", "n1"), machine("m3", "n3", draining)}},
			"",
		},
		"a template that the portal cannot honor: its Machine waits, everything else goes on": {
			View{Desired: 2, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1", outdated), machine("m2", "n2", deleting), machine("m3", "", mismatch)}},
			"detach m2",
		},
		"held with a surplus: drain": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", deleting)}},
			"drain m3",
		},
		"held without a surplus: release at once": {
			View{Desired: 3, Size: 3, Nodes: three, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2"), machine("m3", "n3", deleting)}},
			"detach m3",
		},
		"all drained: one request for all": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", gone), node("n3", gone)}, Machines: []Machine{machine("m1", "n1")}},
			"scale 1",
		},
		"drained, and core has yet to delete one more Machine: not below what live Machines hold": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2")}},
			"scale 2",
		},
		"the portal removes nodes: drained nodes are left as they are": {
			View{Desired: 2, Size: 2, Activity: RemovingNodes, Target: 2, Nodes: []Node{node("n1"), node("n2", gone), node("n3")}, Machines: []Machine{machine("m1", "n1", shielded), machine("m3", "n3", shielded)}},
			"",
		},
		"a Machine with hooks that never had a node is deleted: let it go": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1"),
				machine("m2", "", deleting, func(m *Machine) { m.PreDrain, m.PreTerminate = true, true })}},
			"remove-hooks m2",
		},
		"surprise: the portal took n1, so the drained n3 stays": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n2"), node("n3", gone)}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2")}},
			"uncordon n3",
		},
		"surprise, next pass: m1 is bound to the node that is free now": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n2"), node("n3")}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2")}},
			"bind m1/n3",
		},
		"the Machine's nodeRef follows once the Machine shows the new providerID": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n3")}, Machines: []Machine{machine("m1", "n3", func(m *Machine) { m.NodeRef = "n1" })}},
			"point m1/n3",
		},
		"held, and the Machine does not name its node yet: core sets that, or would not know what to drain": {
			View{Desired: 0, Size: 1, Nodes: three[:1], Machines: []Machine{machine("m1", "n1", deleting, blank)}},
			"",
		},
		"a node that somebody has cordoned stays so": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", cordoned)}, Machines: []Machine{machine("m1", "n1")}},
			"",
		},
		"a Node of the same name but another UID is another Node: never deleted with the Machine": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", reborn)}, Machines: []Machine{machine("m1", "n1", drained)}},
			"detach m1",
		},
		"the portal replaced a node under its name: its Machine takes it again": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", reborn)}, Machines: []Machine{machine("m1", "n1")}},
			"bind m1/n1",
		},
		"a node without a Machine is drained by the provider before it goes": {
			View{Desired: 1, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1")}},
			"evict n2",
		},
		"core has drained a node that goes: the node keeps a mark, and the Machine is released": {
			View{Desired: 1, Size: 2, Nodes: []Node{node("n1"), node("n2", cordoned)}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", drained)}},
			"mark n2, detach m2",
		},
		"core has drained a node that stays after all": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1"), node("n2", cordoned)}, Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", drained)}},
			"detach m2",
		},
		"core went past the pre-drain hook, as it knew no Node yet: released, and the provider drains the node next": {
			View{Desired: 1, Size: 2, Nodes: three[:2], Machines: []Machine{machine("m1", "n1"), machine("m2", "n2", deleting, func(m *Machine) { m.Drained = true })}},
			"detach m2",
		},
		"a Machine is deleted by hand and then the replicas fall: the Machine on the node that will go moves to the free one": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m2", "n2"), machine("m3", "n3")}},
			"bind m3/n1",
		},
		"and the provider drains the node that it left": {
			View{Desired: 2, Size: 3, Nodes: three, Machines: []Machine{machine("m2", "n2"), machine("m3", "n1")}},
			"evict n3",
		},
		"a drain of the provider goes on, even while the portal works": {
			View{Desired: 2, Size: 3, Activity: RemovingNodes, Target: 2, Nodes: []Node{node("n1"), node("n2"), node("n3", evicting)},
				Machines: []Machine{machine("m1", "n1", shielded), machine("m2", "n2", shielded)}},
			"evict n3",
		},
		"replicas rise after a refusal: what exceeds the new surplus is made schedulable, the last in the order of removal first": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2", gone), node("n3", gone)}, Machines: []Machine{machine("m1", "n1"), machine("m4", "")}},
			"uncordon n2",
		},
		"not while the portal removes nodes": {
			View{Desired: 2, Size: 3, SizeUncertain: true, AnswerLost: true, Activity: RemovingNodes, Target: 1, Nodes: []Node{node("n1"), node("n2", gone), node("n3", gone)},
				Machines: []Machine{machine("m1", "n1", shielded), machine("m4", "")}},
			"",
		},
		"but at once when it is seen that it has removed another node, although its job still runs": {
			View{Desired: 2, Size: 2, Activity: RemovingNodes, Target: 2, Nodes: []Node{node("n2"), node("n3", gone)},
				Machines: []Machine{machine("m1", "n1", shielded), machine("m2", "n2", shielded)}},
			"uncordon n3",
		},
		"a drained node that somebody made schedulable, such as an upgrade, is drained again": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone, func(n *Node) { n.Cordoned = false })},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2")}},
			"evict n3",
		},
		"the order was found to be another one: the Machine on the node that goes moves to the drained one, which stays": {
			View{Desired: 2, Size: 3, Order: Oldest, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2")}},
			"uncordon n3, bind m1/n3",
		},
		"the Node object of a drained machine that is gone stays: it is deleted after a while": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1"), node("n2", gone, notReady, func(n *Node) { n.NotReadySince = epoch })}, Machines: []Machine{machine("m1", "n1")}},
			"delete n2",
		},
		"but not soon": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1"), node("n2", gone, notReady, func(n *Node) { n.NotReadySince = epoch.Add(56 * time.Minute) })}, Machines: []Machine{machine("m1", "n1")}},
			"",
		},
		"nor if another one is not Ready: it may be the one that is gone": {
			View{Desired: 1, Size: 2, Nodes: []Node{node("n1"), node("n2", gone, notReady, func(n *Node) { n.NotReadySince = epoch }), node("n3", notReady)},
				Machines: []Machine{machine("m1", "n1"), machine("m3", "n3")}},
			"",
		},
	}.check(t)
}
