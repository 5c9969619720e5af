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
	two, one := threeBound[:2], threeBound[:1]
	asked := func(n *Node) { n.Cordoned, n.Drained = true, epoch.Add(59*time.Minute+30*time.Second) } // joinTime is not over
	tests := map[string]struct {
		view View
		want string
	}{
		"right":              {View{Desired: 3, Size: 3, Nodes: three, Machines: threeBound}, "certain"},
		"right after a fall": {View{Desired: 3, Size: 4, Nodes: three, Machines: threeBound}, "certain"},
		"right, and one is not Ready: asked for, which settles it": {View{Desired: 3, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", notReady)}, Machines: threeBound}, "scale 3"},
		"too few: asked for what is desired":                       {View{Desired: 4, Size: 3, Nodes: three, Machines: threeBound}, "scale 4"},
		"too few, although it may run them":                        {View{Desired: 4, Size: 5, Nodes: three, Machines: threeBound}, "scale 4"},
		"too few, and one is doubtful":                             {View{Desired: 4, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", notReady)}, Machines: two}, "scale 4"},
		"too few, and a drained one is to stay":                    {View{Desired: 4, Size: 5, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: two}, "scale 4"},
		"more Nodes than it may run: those that are Ready count":   {View{Desired: 1, Size: 2, Nodes: []Node{node("n1"), node("n2", notReady), node("n3", notReady), node("n4", gone)}, Machines: threeBound}, "scale 1"},
		"one too many, not drained":                                {View{Desired: 2, Size: 3, Nodes: three, Machines: two}, ""},
		"one too many, its drain has begun":                        {View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", evicting)}, Machines: two}, ""},
		"one too many, drained":                                    {View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: two}, "scale 2"},
		"one too many, drained just now: what is desired":          {View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", just)}, Machines: two}, "scale 2"},
		"one too many, drained and doubtful":                       {View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone, notReady)}, Machines: two}, "scale 2"},
		"one too many, lost for long and without a Machine":        {View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", lost)}, Machines: two}, ""},
		"and cordoned": {View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", lost, cordoned)}, Machines: two}, "scale 2"},
		"one too many, drained, but another one goes first":                   {View{Desired: 2, Size: 3, Order: Oldest, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: two}, ""},
		"two too many, one drained":                                           {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: two}, "scale 2"},
		"two too many, one drained just now: others may join":                 {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", asked)}, Machines: two}, ""},
		"two too many, the wrong one drained":                                 {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", gone), node("n3")}, Machines: one}, ""},
		"two too many, both drained":                                          {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", gone), node("n3", gone)}, Machines: one}, "scale 1"},
		"two too many, both drained, one doubtful":                            {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", gone), node("n3", gone, notReady)}, Machines: one}, "scale 1"},
		"two too many, one drained and doubtful":                              {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone, notReady)}, Machines: two}, "scale 2"},
		"three too many, two drained, one of them doubtful":                   {View{Desired: 1, Size: 4, Nodes: []Node{node("n1"), node("n2"), node("n3", gone), node("n4", gone, notReady)}, Machines: two}, "scale 2"},
		"drained, but the others are away: not more than Ready":               {View{Desired: 1, Size: 4, Nodes: []Node{node("n1"), node("n2", notReady), node("n3", notReady), node("n4", gone)}, Machines: threeBound}, ""},
		"drained, and the replicas rose":                                      {View{Desired: 3, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: two}, "certain"},
		"no order, all drained":                                               {View{Desired: 1, Size: 3, Order: Random, Nodes: []Node{node("n1"), node("n2", gone), node("n3", gone)}, Machines: one}, "scale 1"},
		"no order, one still drains":                                          {View{Desired: 1, Size: 3, Order: Random, Nodes: []Node{node("n1"), node("n2", evicting), node("n3", gone)}, Machines: one}, ""},
		"a Machine that is being deleted still names the node":                {View{Desired: 2, Size: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: append(two[:2:2], machine("m3", "n3", detached))}, ""},
		"a roll-out on lost nodes: what is desired":                           {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", lost), node("n3", gone)}, Machines: two}, "scale 1"},
		"a roll-out on a node that is Ready again":                            {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", lost, func(n *Node) { n.Ready = true }), node("n3", gone)}, Machines: two}, "scale 2"},
		"a roll-out on a node that is not Ready for a moment":                 {View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", notReady), node("n3", gone)}, Machines: two}, "scale 2"},
		"none is desired any more, and it is not known whether one was added": {View{Activity: AddingNodes, Target: 1, AnswerLost: true, MayResend: true, Size: 1}, "scale 0"},
		"never known": {View{Desired: 2, Size: -1, Nodes: []Node{node("n1"), node("n2"), node("n3", gone)}, Machines: two}, "scale 2"},
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
		"it would be the one too many": {
			View{Desired: 2, Size: 3, Nodes: three[:2], Machines: threeBound[:2]},
			"",
		},
		"and a drained one is too": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1"), node("n2", gone)}, Machines: threeBound[:1]},
			"scale 2",
		},
	}.check(t)
}

// TestUncertainLeaving checks which nodes are drained while it is unknown how many workers the portal runs.
func TestUncertainLeaving(t *testing.T) {
	doubtful := node("n3", notReady, fresh)
	rules{
		"the last one goes if there are three, and the second if there are two": {
			View{Desired: 1, Size: 3, SizeUncertain: true, Nodes: []Node{node("n1"), node("n2"), doubtful}, Machines: threeBound[:1]},
			"evict n3, evict n2",
		},
		"the first stays in any case, even before core has made its Machine": {
			View{Desired: 1, Size: 3, SizeUncertain: true, Nodes: []Node{node("n1"), node("n2"), doubtful}},
			"evict n3, evict n2",
		},
		"the same if it runs two at most: either of the last two may be gone": {
			View{Desired: 1, Size: 2, SizeUncertain: true, Nodes: []Node{node("n1"), node("n2"), doubtful}, Machines: threeBound[:1]},
			"evict n3, evict n2",
		},
		"all that are doubtful may have to go": {
			View{Desired: 2, Size: 4, SizeUncertain: true, Nodes: []Node{node("n1"), node("n2"), doubtful, node("n4", notReady, fresh)}, Machines: threeBound[:2]},
			"evict n4, evict n3",
		},
	}.check(t)
}

// TestAskAgain checks the request after a lost answer: its number is right whether or not the portal acted on the first request.
func TestAskAgain(t *testing.T) {
	drainedLast := []Node{node("n1"), node("n2"), node("n3", gone)}
	tests := map[string]struct {
		view View
		want string
	}{
		"down, not heard":                   {View{Desired: 2, Activity: RemovingNodes, Target: 2, Nodes: drainedLast}, "scale 2"},
		"down, and the replicas rose":       {View{Desired: 3, Activity: RemovingNodes, Target: 2, Nodes: drainedLast}, "scale 3"},
		"down, and the replicas fell":       {View{Desired: 1, Activity: RemovingNodes, Target: 2, Nodes: drainedLast}, "scale 2"},
		"up, not heard":                     {View{Desired: 5, Activity: AddingNodes, Target: 5, Nodes: three}, "scale 5"},
		"up, and the replicas rose":         {View{Desired: 6, Activity: AddingNodes, Target: 5, Nodes: three}, "scale 6"},
		"up, and the replicas fell":         {View{Desired: 4, Activity: AddingNodes, Target: 5, Nodes: three}, "scale 4"},
		"up, fell: first nodes are drained": {View{Desired: 1, Activity: AddingNodes, Target: 5, Nodes: three}, ""},
		"up, fell, and one is not Ready":    {View{Desired: 1, Activity: AddingNodes, Target: 5, Nodes: []Node{node("n1"), node("n2"), node("n3", notReady)}}, ""},
		"down, and it is seen":              {View{Desired: 2, Activity: RemovingNodes, Target: 2, Nodes: three[:2]}, "reached"},
		"up, and it is seen":                {View{Desired: 3, Activity: AddingNodes, Target: 3, Nodes: three}, "reached"},
		"up, and it is nearly seen":         {View{Desired: 3, Activity: AddingNodes, Target: 3, Nodes: []Node{node("n1"), node("n2"), node("n3", notReady)}}, "scale 3"},
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
