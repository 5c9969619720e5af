// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lost means not Ready for ten minutes.
func lost(n *Node) { n.Ready, n.NotReadySince = false, epoch.Add(50*time.Minute) }

// request formats the plan's request to the portal.
func request(p Plan) string { return summary(Plan{Scale: p.Scale, Size: p.Size}) }

// TestUncertainSize checks what the portal is asked for while it is unknown how many workers it runs. Size is the largest number
// that it may run. "Doubtful" is a node that is not Ready, so its machine may be gone.
func TestUncertainSize(t *testing.T) {
	tests := map[string]struct {
		view View
		want string
	}{
		"right":              {see("3/3 n1 n2 n3 m1/n1 m2/n2 m3/n3"), "certain"},
		"right after a fall": {see("3/4 n1 n2 n3 m1/n1 m2/n2 m3/n3"), "certain"},
		"right, and one is not Ready: asked for, which settles it": {see("3/3 n1 n2 n3:notReady m1/n1 m2/n2 m3/n3"), "scale 3"},
		"too few: asked for what is desired":                       {see("4/3 n1 n2 n3 m1/n1 m2/n2 m3/n3"), "scale 4"},
		"more Nodes than it may run: those that are Ready count":   {see("1/2 n1 n2:notReady n3:notReady n4:gone m1/n1 m2/n2 m3/n3"), "scale 1"},
		"one too many, its drain has begun":                        {see("2/3 n1 n2 n3:evicting m1/n1 m2/n2"), ""},
		"one too many, drained and doubtful":                       {see("2/3 n1 n2 n3:gone:notReady m1/n1 m2/n2"), "scale 2"},
		"one too many, lost for long and without a Machine":        {see("2/3 n1 n2 n3:lost m1/n1 m2/n2"), ""},
		"and cordoned": {see("2/3 n1 n2 n3:lost:cordoned m1/n1 m2/n2"), "scale 2"},
		"two too many, one drained just now: others may join":                 {see("1/3 n1 n2 n3:asked m1/n1 m2/n2"), ""},
		"two too many, both drained, one doubtful":                            {see("1/3 n1 n2:gone n3:gone:notReady m1/n1"), "scale 1"},
		"two too many, one drained and doubtful":                              {see("1/3 n1 n2 n3:gone:notReady m1/n1 m2/n2"), "scale 2"},
		"three too many, two drained, one of them doubtful":                   {see("1/4 n1 n2 n3:gone n4:gone:notReady m1/n1 m2/n2"), "scale 2"},
		"drained, but the others are away: not more than Ready":               {see("1/4 n1 n2:notReady n3:notReady n4:gone m1/n1 m2/n2 m3/n3"), ""},
		"no order, one still drains":                                          {see("1/3 Random n1 n2:evicting n3:gone m1/n1"), ""},
		"a Machine that is being deleted still names the node":                {see("2/3 n1 n2 n3:gone m1/n1 m2/n2 m3/n3:detached"), ""},
		"a roll-out on lost nodes: what is desired":                           {see("1/3 n1 n2:lost n3:gone m1/n1 m2/n2"), "scale 1"},
		"a roll-out on a node that is Ready again":                            {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", lost, func(n *Node) { n.Ready = true }), node("n3", gone)}, Machines: threeBound[:2]}, "scale 2"},
		"a roll-out on a node that is not Ready for a moment":                 {see("1/3 n1 n2:notReady n3:gone m1/n1 m2/n2"), "scale 2"},
		"none is desired any more, and it is not known whether one was added": {see("0/1 adding target=1 answerLost mayResend"), "scale 0"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			test.view.ClusterID, test.view.SizeUncertain, test.view.Now = "c1", true, epoch.Add(time.Hour)
			plan := Decide(test.view)
			got := request(plan)
			if plan.SizeCertain {
				got += "certain"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSizeNotSeen checks that a worker without a Node is not removed: its node may still be joining. The workers are counted
// later.
func TestSizeNotSeen(t *testing.T) {
	rules{
		"and a drained one is too": {see("1/3 n1 n2:gone m1/n1"), "scale 2"},
	}.check(t)
}

// TestUncertainLeaving checks which nodes are drained while it is unknown how many workers the portal runs.
func TestUncertainLeaving(t *testing.T) {
	rules{
		"the last one goes if there are three, and the second if there are two": {
			see("1/3 uncertain n1 n2 n3:notReady:fresh m1/n1"), "evict n3, evict n2",
		},
		"the first stays in any case, even before core has made its Machine": {see("1/3 uncertain n1 n2 n3:notReady:fresh"), "evict n3, evict n2"},
		"the same if it runs two at most: either of the last two may be gone": {
			see("1/2 uncertain n1 n2 n3:notReady:fresh m1/n1"), "evict n3, evict n2",
		},
	}.check(t)
}

// TestAskAgain checks the request after a lost answer: its number is right whether or not the portal acted on the first request.
func TestAskAgain(t *testing.T) {
	tests := map[string]struct {
		view View
		want string
	}{
		"down, and the replicas rose":       {see("3/0 removing target=2 n1 n2 n3:gone"), "scale 3"},
		"down, and the replicas fell":       {see("1/0 removing target=2 n1 n2 n3:gone"), "scale 2"},
		"up, and the replicas fell":         {see("4/0 adding target=5 n1 n2 n3"), "scale 4"},
		"up, fell: first nodes are drained": {see("1/0 adding target=5 n1 n2 n3"), ""},
		"up, fell, and one is not Ready":    {see("1/0 adding target=5 n1 n2 n3:notReady"), ""},
		"down, and it is seen":              {see("2/0 removing target=2 n1 n2"), "reached"},
		"up, and it is seen":                {see("3/0 adding target=3 n1 n2 n3"), "reached"},
		"up, and it is nearly seen":         {see("3/0 adding target=3 n1 n2 n3:notReady"), "scale 3"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			test.view.ClusterID, test.view.SizeUncertain, test.view.AnswerLost, test.view.Now = "c1", true, true, epoch.Add(time.Hour)
			test.view.Size = max(3, test.view.Target)
			early := Decide(test.view)
			if early.Scale || early.Reached != (test.want == "reached") {
				t.Errorf("before it may ask: %s, reached %t", request(early), early.Reached)
			}
			test.view.MayResend = true
			plan := Decide(test.view)
			got := request(plan)
			if plan.Reached {
				got += "reached"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUncertainSizeIsSafe goes through all clusters of up to three nodes with an uncertain size. A request never asks for less
// than desired, and no node is removed that is not drained, whether the portal runs all Nodes or only the Ready ones. Nodes
// without a Machine that have not been Ready for long count as gone. Drained ones only do if more workers are desired than are
// Ready (see present). While the order is assumed, a request removes one node at most, or as many as are not Ready.
func TestUncertainSizeIsSafe(t *testing.T) {
	kinds := []struct {
		node  func(*Node)
		bound bool
	}{
		{func(*Node) {}, true}, {func(*Node) {}, false}, {gone, false}, {evicting, false}, {notReady, true}, {notReady, false}, {lost, false},
		{func(n *Node) { gone(n); lost(n) }, false},
	}
	requests := 0
	for total := range 4 {
		choices := 1
		for range total {
			choices *= len(kinds)
		}
		for choice := range choices {
			var nodes []Node
			var machines []Machine
			for i, rest := 0, choice; i < total; i, rest = i+1, rest/len(kinds) {
				kind := kinds[rest%len(kinds)]
				name := string(rune('1' + i))
				nodes = append(nodes, node("n"+name, kind.node))
				if kind.bound {
					machines = append(machines, machine("m"+name, "n"+name))
				}
			}
			for _, order := range []Order{Newest, Oldest} {
				requests += judgeUncertain(t, View{Order: order, Nodes: nodes, Machines: machines})
				judgeUncertain(t, View{Order: order, OrderAssumed: true, Nodes: nodes, Machines: machines})
			}
		}
	}
	if requests == 0 {
		t.Error("nothing was asked for")
	}
}

// judgeUncertain decides with every number of replicas and every size, judges the requests, and counts them.
func judgeUncertain(t *testing.T, v View) (requests int) {
	v.ClusterID, v.SizeUncertain, v.Now = "c1", true, epoch.Add(time.Hour)
	ready := keep(v.Nodes, func(n Node) bool { return n.Ready })
	for v.Desired = range len(v.Nodes) + 2 {
		for v.Size = len(ready); v.Size <= len(v.Nodes)+1; v.Size++ {
			plan := Decide(v)
			if !plan.Scale {
				continue
			}
			requests++
			all := keep(v.Nodes, func(n Node) bool { return n.NotReadySince.IsZero() || n.drained() && v.Desired <= len(ready) })
			if plan.Size < v.Desired {
				t.Fatalf("asked for %d of %d: %+v", plan.Size, v.Desired, v)
			}
			for _, running := range [][]Node{all, ready} {
				if victim := removedUndrained(running, v, plan.Size); victim != "" && len(running) <= max(v.Size, len(ready)) {
					t.Fatalf("asked for %d of %d, the portal runs %d and removes %s: %+v", plan.Size, v.Size, len(running), victim, v)
				}
				if v.OrderAssumed && plan.Size > 0 && min(len(running), max(v.Size, len(ready)))-plan.Size > max(1, len(v.Nodes)-len(ready)) {
					t.Fatalf("asked for %d, the portal runs %d, and the order is assumed: %+v", plan.Size, len(running), v)
				}
			}
		}
	}
	return requests
}

// removedUndrained names a node that is not drained and that the portal removes if it runs these and keeps so many.
func removedUndrained(running []Node, v View, size int) string {
	line := slices.Clone(running)
	if v.Order != Oldest {
		slices.Reverse(line)
	}
	for _, n := range line[:max(0, len(line)-size)] {
		if !n.drained() {
			return n.Name
		}
	}
	return ""
}
