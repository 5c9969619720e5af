// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"
)

// TestSharedByDeparting checks several Machines on one node that are all being deleted: core drains the node for one of them.
func TestSharedByDeparting(t *testing.T) {
	outcomes{
		"the first one": {see("0/1 n1 m1/n1:deleting m2/n1:deleting"), "drain m1; draining m1"},
		"it has begun with the second: the first waits for what comes of it": {see("0/1 n1 m2/n1:deleting m3/n1:draining"), "draining m3"},
		"it has begun with the last, and the first is drained no more: the second is released": {
			see("1/2 n1 n2 m1/n2:passed m2/n2:deleting m3/n2:draining"), "detach m1, detach m2; 1 free; draining m3",
		},
		"a node that core went past costs more than a free one to lose": {see("1/2 Random n1 n2 m1/n1:passed"), "detach m1; 1 free"},
	}.check(t)
}

// TestReleaseOrWait checks whether a Machine that is being deleted is released now.
func TestReleaseOrWait(t *testing.T) {
	later := func(n *Node) { n.Remediated = epoch.Add(55 * time.Minute) }
	outcomes{
		"core has drained a node that stays: it gets no mark": {see("1/1 n1 m1/n1:drained"), "detach m1"},
		"core has drained a node while the portal replaces nodes: the node keeps a mark": {
			see("1/1 replacing n1:cordoned m1/n1:drained"), "mark n1, detach m1",
		},
		"but not if the node takes Pods again":                        {see("1/1 replacing n1 m1/n1:drained"), "detach m1"},
		"but not if another Machine holds it, too":                    {see("1/1 replacing n1 m1/n1:drained m2/n1:shielded"), "detach m1"},
		"more nodes than the portal runs, but as many as are desired": {see("1/0 n1 m1/n1:deleting"), "detach m1, scale 1"},
		"fewer nodes than are desired, and more than the portal runs": {see("2/0 n1 m1/n1:deleting"), "detach m1, scale 2"},
		"more than are desired: it may go with a node":                {see("1/0 n1 n2 m1/n1:deleting"), "scale 1; 1 free"},
		"it shows a node that it was not given":                       {see("m1:deleting:hooked:was=n1"), "detach m1"},
		"it was given a node, and does not show it":                   {see("m2/n9:blank:passed"), "detach m2"},
		"an unhealthy one leaves a note":                              {see("1/1 n1:remediated m2/n1:deleting:unhealthy"), "remediated n1, detach m2"},
		"one note is enough": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", later)}, Machines: []Machine{machine("m2", "n1", deleting, unhealthy)}}, "detach m2",
		},
		"a note is kept for ten minutes": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", later)}, Machines: []Machine{machine("m2", "n1", shielded)}}, "after 5m0s",
		},
	}.check(t)
}

// TestAsk checks when the portal is asked, and when that waits for nodes which stay after all.
func TestAsk(t *testing.T) {
	minute := func(n *Node) { n.Ready, n.Created = false, epoch.Add(59*time.Minute) }
	five := func(n *Node) { n.Ready, n.Cordoned, n.NotReadySince = false, true, epoch.Add(55*time.Minute) }
	outcomes{
		"a removal whose answer was lost is asked for again, whatever is seen": {see("removing target=2 mayResend"), "scale 2"},
		"as many nodes as are desired, of which one may be gone and one is drained": {
			see("1/2 uncertain n1:away n2:gone"), "uncordon n2; drained n2",
		},
		"a drained node that a live Machine holds is not removed before the Machine has moved": {
			see("1/2 n2 n3:gone m1/n3"), "bind m1/n2; drained n3",
		},
		"core may have cordoned a node that stays": {see("1/1 uncertain answerLost n1 m1/n1:drained"), "detach m1"},
		"core has not touched it":                  {see("1/1 uncertain n1:recent m2/n1:detached"), "scale 1; 1 free; after 1m0s"},
		"the node of a drained Machine is gone":    {see("0/5 m2/n9:drained"), "detach m2"},
		"a minute is exactly over": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", minute)}, Machines: []Machine{machine("m1", "")}}, "hooks+shield m1, bind m1/n1",
		},
		"five minutes are exactly over: the plan is looked at again for the other node": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", five), node("n3")}, Machines: threeBound[:1]}, "evict n3; 2 free; after 5s",
		},
	}.check(t)
}
