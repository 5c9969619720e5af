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
			see("2/2 n1 n2 m2 m1"), "hooks m1, hooks m2, bind m1/n1, bind m2/n2",
		},
		"bind: a Node without providerID gets one": {see("1/1 n1:nameless m1"), "name n1, hooks m1, bind m1/n1"},
		"bind: a Node that the portal's cloud controller has not initialized gets no providerID, which could never be changed, and no Machine": {
			see("2/2 n1:uninitialized n2 m1 m2"), "hooks m1, bind m1/n2",
		},
		"bind: it is one of the workers, so no other one is added for it, and it is removed like others": {
			see("1/2 n1 n2:uninitialized m1/n1"), "evict n2",
		},
		"bind: a new Node gets a minute to become Ready": {see("1/1 n1:notReady:fresh m1"), ""},
		"bind: a Node that does not become Ready is bound behind a shield, or it would be remediated for ever": {
			see("1/1 n1:notReady m1"), "hooks+shield m1, bind m1/n1",
		},
		"bind: Ready nodes first": {see("2/2 n1:notReady n2 m1"), "hooks m1, bind m1/n2"},
		"bind: a free node goes to the MachineDeployment that held it last": {
			see("2/2 n1:last=b-1 n2:last=a-1 m1:of=a m2:of=b"), "hooks m1, hooks m2, bind m1/n2, bind m2/n1",
		},
		"bind: never a Machine that is being deleted":               {see("0/1 n1 m1:deleting"), "evict n1"},
		"bind: not while the portal removes nodes":                  {see("1/1 removing target=1 n1 n2 m1"), ""},
		"bind: yes while it adds nodes":                             {see("3/3 adding n1 m1"), "hooks m1, bind m1/n1"},
		"hooks taken off by somebody come back":                     {see("1/1 n1 m1/n1:noPreDrain"), "hooks m1"},
		"bind: during an upgrade to a Ready node only":              {see("2/2 replacing n1:notReady n2 m1 m2"), "hooks m1, bind m1/n2"},
		"bind: not to a node that goes, nor to one that is drained": {see("1/3 n1:evicting n2 n3:gone m1"), "uncordon n1, evict n2"},
	}.check(t)
}

// TestTakeover checks how new Machines of a rolling update take over the nodes of old ones.
func TestTakeover(t *testing.T) {
	rules{
		"takeover: the new Machine beyond the number of workers shares the node of an outdated one": {
			see("2/2 n1 n2 m1/n1:of=a:outdated m2/n2:of=a:outdated m3:of=a"), "delete-first m1, hooks m3, bind m3/n1",
		},
		"takeover, then: the marked one is held, shares its node, and is released": {
			see("2/2 n1 n2 m1/n1:of=a:outdated:first:deleting m2/n2:of=a:outdated m3/n1:of=a"), "detach m1",
		},
		"takeover: only within the same MachineDeployment":           {see("1/1 n1 m1/n1:of=a:outdated m3:of=b"), ""},
		"takeover: not of a Machine that is up to date":              {see("1/1 n1 m1/n1:of=a m3:of=a"), ""},
		"takeover: not while nodes are on order for the new Machine": {see("2/2 adding n1 m1/n1:of=a:outdated m3:of=a"), ""},
		"takeover by two, with a surge of two": {
			see("2/2 n1 n2 m1/n1:of=a:outdated m2/n2:of=a:outdated m3:of=a m4:of=a"),
			"delete-first m1, delete-first m2, hooks m3, hooks m4, bind m3/n1, bind m4/n2",
		},
	}.check(t)
}

// TestSwap checks how a Machine that is being deleted gets the node that the portal will remove.
func TestSwap(t *testing.T) {
	rules{
		"swap, where the portal is seen to remove the oldest: the Machine that holds that one moves over": {
			see("2/3 Oldest n1 n2 n3 m1/n1 m2/n2 m3/n3:deleting"), "bind m1/n3",
		},
		"no swap between nodes of the same second: the one is as likely to go as the other, and would be taken back": {
			see("2/3 n1 n2:fresh n3:fresh m1/n1 m2 m3/n3:deleting"), "hooks m2, drain m3, bind m2/n2",
		},
		"swap: a held Machine takes no node that is not initialized. The provider drains it, and the Machine's node stays": {
			see("2/3 n1 n2 n3:uninitialized m1/n1:deleting m2/n2"), "detach m1, evict n3",
		},
		"swap: a Machine whose node goes does not move to a node that is not initialized": {see("1/2 Newest n1:uninitialized n2 m2/n2"), ""},
		"swap, next: the held one takes the node that is free now":                        {see("2/3 n1 n2 n3 m1/n1:deleting m2/n2 m3/n1:was=n3"), "swap m1/n3"},
		"swap, to a node that is not Ready, interrupted after the shield: it stays on": {
			see("2/3 n1:notReady n2 n3 m1/n1:deleting m2/n2 m3/n3:shielded"), "bind m3/n1",
		},
		"swap, next: a node that stays after all loses the autoscaler's taint first": {
			see("2/3 n1:tainted n2 n3 m1/n1:deleting m2/n2 m3/n1:was=n3"), "uncordon n1, swap m1/n3",
		},
		"swap, then: wait until both Machines show it":                             {see("2/3 n1 n2 n3 m1/n3:deleting:was=n1 m2/n2 m3/n1:was=n3"), ""},
		"swap, then: nodeRefs":                                                     {see("2/3 n1 n2 n3 m1/n3:deleting:ref=n1 m2/n2 m3/n1:ref=n3"), "point m1/n3, point m3/n1"},
		"swap, and others are drained already: they wait, for one request for all": {see("1/3 n1 n2 n3:just m1/n1:deleting m2/n2"), "bind m2/n1"},
		"swap, on the way to the node that it is to go with: they still wait":      {see("1/3 n1 n2 n3:just m1/n2:deleting:was=n1 m2/n1:was=n2"), ""},
		"swap interrupted, and the surplus is gone: released, the live Machine keeps the node": {
			see("3/3 n1 n2 n3 m1/n1:deleting m2/n2 m3/n1:was=n3"), "detach m1",
		},
	}.check(t)
}

// TestLeaving checks which nodes are removed, and what happens to them before.
func TestLeaving(t *testing.T) {
	rules{
		"a drain that blocks: all wait if the order of removal is not known": {see("1/3 Random n1 n2 n3:gone m1/n1 m2/n2:draining"), ""},
		"a drain that blocks: after a minute those before it go":             {see("1/3 n1 n2 n3:gone m1/n1 m2/n2:draining"), "scale 2"},
		"a template that the portal cannot honor: its Machine waits, everything else goes on": {
			see("2/2 n1 n2 m1/n1:outdated m2/n2:deleting m3:mismatch"), "detach m2",
		},
		"held with a surplus: drain": {see("2/3 n1 n2 n3 m1/n1 m2/n2 m3/n3:deleting"), "drain m3"},
		"drained, and core has yet to delete one more Machine: not below what live Machines hold": {see("1/3 n1 n2 n3:gone m1/n1 m2/n2"), "scale 2"},
		"the portal removes nodes: drained nodes are left as they are": {
			see("2/2 removing target=2 n1 n2:gone n3 m1/n1:shielded m3/n3:shielded"), "",
		},
		"a Machine with hooks that never had a node is deleted: let it go":                                  {see("1/1 n1 m1/n1 m2:deleting:hooked"), "remove-hooks m2"},
		"surprise, next pass: m1 is bound to the node that is free now":                                     {see("2/2 n2 n3 m1/n1 m2/n2"), "bind m1/n3"},
		"held, and the Machine does not name its node yet: core sets that, or would not know what to drain": {see("0/1 n1 m1/n1:deleting:blank"), ""},
		"a node that somebody has cordoned stays so":                                                        {see("1/1 n1:cordoned m1/n1"), ""},
		"a Node of the same name but another UID is another Node: never deleted with the Machine":           {see("1/1 n1:reborn m1/n1:drained"), "detach m1"},
		"the portal replaced a node under its name: its Machine takes it again":                             {see("1/1 n1:reborn m1/n1"), "bind m1/n1"},
		"core has drained a node that goes: the node keeps a mark, and the Machine is released": {
			see("1/2 n1 n2:cordoned m1/n1 m2/n2:drained"), "mark n2, detach m2",
		},
		"core went past the pre-drain hook, as it knew no Node yet: released, and the provider drains the node next": {
			see("1/2 n1 n2 m1/n1 m2/n2:passed"), "detach m2",
		},
		"a Machine is deleted by hand and then the replicas fall: the Machine on the node that will go moves to the free one": {
			see("2/3 n1 n2 n3 m2/n2 m3/n3"), "bind m3/n1",
		},
		"and the provider drains the node that it left": {see("2/3 n1 n2 n3 m2/n2 m3/n1"), "evict n3"},
		"a drain of the provider goes on, even while the portal works": {
			see("2/3 removing target=2 n1 n2 n3:evicting m1/n1:shielded m2/n2:shielded"), "evict n3",
		},
		"replicas rise after a refusal: what exceeds the new surplus is made schedulable, the last in the order of removal first": {
			see("2/3 n1 n2:gone n3:gone m1/n1 m4"), "uncordon n2",
		},
		"not while the portal removes nodes": {see("2/3 uncertain answerLost removing target=1 n1 n2:gone n3:gone m1/n1:shielded m4"), ""},
		"but at once when it is seen that it has removed another node, although its job still runs": {
			see("2/2 removing target=2 n2 n3:gone m1/n1:shielded m2/n2:shielded"), "uncordon n3",
		},
		"a drained node that somebody made schedulable, such as an upgrade, is drained again": {
			View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone, func(n *Node) { n.Cordoned = false })},
				Machines: []Machine{machine("m1", "n1"), machine("m2", "n2")}},
			"evict n3",
		},
		"the Node object of a drained machine that is gone stays: it is deleted after a while": {see("1/1 n1 n2:gone:away m1/n1"), "delete n2"},
		"but not soon": {see("1/1 n1 n2:gone:recent m1/n1"), ""},
		"nor if another one is not Ready: it may be the one that is gone": {see("1/2 n1 n2:gone:away n3:notReady m1/n1 m3/n3"), ""},
	}.check(t)
}
