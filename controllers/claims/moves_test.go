// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestReasons checks the moves of each decision, in words, and the reasons that a person reads in the log. It has every reason.
func TestReasons(t *testing.T) {
	long := func(n *Node) { n.NotReadySince = epoch }
	tests := map[string]struct {
		view View
		want []string
	}{
		"bind": {
			see("2/2 n1:nameless n2:remediated m1 m2/n9"),
			[]string{
				"n1, Gave the Node a providerID: Machine m1 gets it",
				"m1, Put the deletion hooks on the Machine: it had no Node",
				"m2, Kept MachineHealthChecks from remediating the Machine: its Node n9 is gone",
				"m1, Bound the Machine to the Node: it had no Node",
				"m2, Moved the Machine to another Node: its Node n9 is gone",
			},
		},
		"bound before": {see("1/1 n1 m1/n1:unhooked"), []string{"m1, Put the deletion hooks on the Machine: it has Node n1"}},
		"point":        {see("1/1 n3 m1/n3:ref=n1"), []string{"m1, Set the nodeRef of the Machine: it has Node n3"}},
		"takeover": {
			see("1/1 n1 m1/n1:of=a:outdated m3:of=a"),
			[]string{
				"m1, Marked the Machine to be deleted first: the up-to-date Machine m3 takes its Node over",
				"m3, Put the deletion hooks on the Machine: it takes the Node of the outdated Machine m1 over",
				"m3, Bound the Machine to the Node: it takes the Node of the outdated Machine m1 over",
			},
		},
		"its node is lost": {
			View{Desired: 2, Size: 2, Nodes: []Node{node("n1"), node("n2", notReady, long)}, Machines: []Machine{machine("m2", "n2")}},
			[]string{"m2, Moved the Machine to another Node: Node n2 has not been Ready since 2026-01-01T00:00:00Z"},
		},
		"two share a node": {see("2/2 n1 n2 m1/n1 m2/n1"), []string{"m2, Moved the Machine to another Node: it shared Node n1"}},
		"the order is another one": {
			see("2/3 Oldest n1 n2 n3:gone m1/n1 m2/n2"),
			[]string{
				"n3, Made the Node schedulable: it stays, and Machine m1 takes it",
				"m1, Moved the Machine to another Node: the sum of the replicas is 2, and the number of workers is 3. The portal is expected to remove Node n1 next (Oldest first)",
			},
		},
		"swap": {
			see("2/3 n1 n2 n3 m1/n1:deleting m2/n2 m3/n3"),
			[]string{
				"m3, Moved the Machine to another Node: the sum of the replicas is 2, and the number of workers is 3. The portal is expected to remove Node n3 next (Newest first). Machine m1, which is being deleted, gets Node n3",
			},
		},
		"swap, next": {
			see("2/3 assumed n1:tainted n2 n3 m1/n1:deleting m2/n2 m3/n1:was=n3"),
			[]string{
				"n1, Made the Node schedulable: it stays, with another Machine",
				"m1, Moved the Machine to another Node: the sum of the replicas is 2, and the number of workers is 3. The portal is expected to remove Node n3 next (Newest first, which is assumed)",
			},
		},
		"core may drain": {
			see("2/3 Random n1 n2 n3 m1/n1:deleting m2/n2 m3/n3"),
			[]string{
				"m1, Let core drain the Node: the sum of the replicas is 2, and the number of workers is 3. The portal is expected to remove Node n1 next (its order is unknown)",
			},
		},
		"core has drained": {
			see("1/2 n1 n2:cordoned m1/n1 m2/n2:drained:ruled=a"),
			[]string{
				"n2, Recorded that the Node is drained, Noted the Machine's rules for drains on the Node: core has drained it for Machine m2",
				"m2, Released the Machine from its Node: core has drained its Node",
			},
		},
		"core has drained a node that stays": {
			see("2/2 n1 n2:cordoned m1/n1 m2/n2:drained"),
			[]string{
				"m2, Released the Machine from its Node: its Node is not among those that are removed next: the sum of the replicas is 2, and the number of workers is 2",
			},
		},
		"held, and the node stays": {
			see("1/1 n1 m1/n1:deleting:unhealthy"),
			[]string{
				"n1, Noted on the Node that a MachineHealthCheck replaced its Machine: Machine m1 was unhealthy",
				"m1, Released the Machine from its Node: its Node is not among those that are removed next: the sum of the replicas is 1, and the number of workers is 1",
			},
		},
		"core went past the drain": {
			see("1/1 n1 m2/n1:passed"), []string{"m2, Released the Machine from its Node: core went past the drain, because it knew no Node"},
		},
		"the node is gone": {see("1/1 n1 m1/n1 m3/n3:drained"), []string{"m3, Released the Machine from its Node: its Node is gone"}},
		"never had a node": {see("0/0 m2:deleting:hooked"), []string{"m2, Removed the deletion hooks from the Machine: it never had a Node"}},
		"released":         {see("0/0 m1/n1:detached:shown"), []string{"m1, Removed the nodeRef of the Machine: it was released"}},
		"released, and the node stays": {
			see("1/1 n1:cordoned m1/n1:drained:detached:shown:forgotten m2/n1"),
			[]string{"n1, Made the Node schedulable: it stays, and Machine m1 was released"},
		},
		"released and forgotten": {
			see("0/0 m1/n1:detached:shown:forgotten"),
			[]string{"m1, Removed the deletion hooks from the Machine: it was released, and names no Node"},
		},
		"restored": {
			see("1/1 n1:cordoned m1/n1:draining:kept"),
			[]string{
				"n1, Made the Node schedulable: Machine m1 is not being deleted any more",
				"m1, Put the deletion hooks on the Machine: it is not being deleted any more",
			},
		},
		"a drained node stays": {
			see("2/2 n2 n3:gone m1/n1 m2/n2"),
			[]string{"n3, Made the Node schedulable: it stays: the sum of the replicas is 2, and the number of workers is 2"},
		},
		"a node without a Machine": {
			see("1/2 n1 n2 m1/n1"),
			[]string{
				"n2, : no Machine has it, and the sum of the replicas is 1, and the number of workers is 2. The portal is expected to remove Node n2 next (Newest first)",
			},
		},
		"left over": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1"), node("n2", gone, notReady, long)}, Machines: []Machine{machine("m1", "n1")}},
			[]string{
				"n2, Deleted the Node of a drained machine that the portal has removed: it was drained and is not Ready, and as many other Nodes are Ready as the portal runs workers",
			},
		},
		"shield": {
			see("1/1 replacing n1 m1/n1"),
			[]string{"m1, Kept MachineHealthChecks from remediating the Machine: the portal removes or replaces nodes"},
		},
		"shield ends": {
			see("1/1 n1:remediated m2/n1:shielded"),
			[]string{
				"n1, Removed the note about the replaced Machine from the Node: it is healthy",
				"m2, Let MachineHealthChecks remediate the Machine: the portal is at rest, and Node n1 is healthy",
			},
		},
		"autoscaler: a Pod must stay": {
			see("2/2 autoscaled n1 n2:pinned m1/n1 m2/n2"),
			[]string{
				"n1, Kept the cluster autoscaler from removing the Node: the cluster autoscaler may remove the nodes that the portal removes first (Newest first), up to one with a Pod that must stay",
				"n2, Kept the cluster autoscaler from removing the Node: the cluster autoscaler may remove the nodes that the portal removes first (Newest first), up to one with a Pod that must stay",
			},
		},
		"autoscaler: not now": {
			see("1/1 autoscaled Random n1 m1/n1"),
			[]string{
				"n1, Kept the cluster autoscaler from removing the Node: the cluster autoscaler may remove no node now: the sum of the replicas is 1, and the number of workers is 1",
			},
		},
		"autoscaler: none": {
			see("1/1 n1:protected m1/n1"), []string{"n1, Let the cluster autoscaler remove the Node: the cluster autoscaler scales nothing here"},
		},
		"pool": {
			see("1/1 n1:nameless pool=1"),
			[]string{
				", Changed the list of the pool: the pool lists the Nodes that belong to it",
				"n1, Gave the Node a providerID: it belongs to the pool",
			},
		},
		"scale up": {see("5/3 n1 n2 n3 m1/n1 m2/n2 m3/n3"), []string{"scale to 5: the sum of the replicas is 5, and the number of workers is 3"}},
		"scale down": {
			see("1/3 n1 n2:gone n3:gone m1/n1"),
			[]string{
				"scale to 1: the sum of the replicas is 1, and the number of workers is 3; drained, and expected to be removed (Newest first): n3, n2",
			},
		},
		"scale down, uncertain": {
			see("1/2 uncertain n1 n2:gone m1/n1"),
			[]string{
				"scale to 1: the sum of the replicas is 1, and the number of workers is 2; it is uncertain how many workers the portal runs; drained, and expected to be removed (Newest first): n2",
			},
		},
		"scale down, no order": {
			see("2/3 Random n1 n2 n3:gone m1/n1 m2/n2"),
			[]string{
				"scale to 2: the sum of the replicas is 2, and the number of workers is 3; drained, and expected to be removed (its order is unknown): n3",
			},
		},
		"the answer was lost": {
			see("3/2 uncertain answerLost mayResend adding target=3 n1 n2 m1/n1 m2/n2"),
			[]string{"scale to 3: the sum of the replicas is 3, and the number of workers is 2; the answer to the last request was lost"},
		},
		"no object asks": {
			see("0/2 unasked n1 n2:gone"),
			[]string{
				"scale to 1: no object asks for workers, and the number of workers is 2; drained, and expected to be removed (Newest first): n2",
			},
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			test.view.ClusterID, test.view.Now = "c1", epoch.Add(time.Hour)
			if test.view.Order == "" {
				test.view.Order = Newest
			}
			if diff := cmp.Diff(test.want, told(Decide(test.view))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// told is what the log says of a plan that was carried out.
func told(p Plan) (lines []string) {
	for _, w := range p.Writes {
		var words []string
		for _, move := range w.Moves() {
			words = append(words, string(move))
		}
		lines = append(lines, fmt.Sprintf("%s%s, %s: %s", w.Machine.Seen.Name, w.Node.Seen.Name, strings.Join(words, ", "), w.Why))
	}
	if p.Scale {
		lines = append(lines, fmt.Sprintf("scale to %d: %s", p.Size, p.Why))
	}
	return lines
}
