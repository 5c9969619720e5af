// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seen writes which nodes' machines appear to exist, which are known to, and how many workers the portal appears to run.
func seen(p Plan) string {
	names := func(list []NodeSnapshot) string {
		var all []string
		for _, s := range list {
			all = append(all, strings.TrimPrefix(s.UID, "uid-"))
		}
		return strings.Join(all, " ")
	}
	return fmt.Sprintf("present %s; known %s; counted %d", names(Snapshot(p.Present)), names(p.Before), p.Counted)
}

// TestPresent checks which nodes' machines appear to exist.
func TestPresent(t *testing.T) {
	four := Snapshot([]Node{node("n1"), node("n2"), node("n3"), node("n4")})
	for name, test := range map[string]struct {
		view View
		want string
	}{
		"one too many, and two are not Ready: the one that no Machine holds": {
			see("0/1 n1:notReady n2:notReady m2/n2"), "present n2; known n2; counted 1",
		},
		"a Machine that was released holds none": {
			see("0/2 n1:notReady n2:notReady n3:notReady m1/n1 m2/n2:detached m3/n3"), "present n1 n3; known n1 n3; counted 2",
		},
		"nodes are on order": {see("0/1 adding n1 n2:notReady"), "present n1 n2; known n1 n2; counted 1"},
		"uncertain: a Machine holds the node, however long it is not Ready":          {see("2/2 uncertain n2:away m2/n2"), "present n2; known n2; counted 1"},
		"uncertain: not Ready for five minutes, and more are desired than are Ready": {see("1/1 uncertain n3:lost"), "present ; known ; counted 0"},
		"uncertain: it may still have to go":                                         {see("0/1 uncertain n3:lost"), "present n3; known n3; counted 1"},
		"uncertain: it did not exist before the last scale": {
			View{Size: 1, SizeUncertain: true, Before: four, Nodes: []Node{node("n5", lost)}}, "present ; known ; counted 0",
		},
		"uncertain: not Ready for a moment": {see("1/1 uncertain n2:recent"), "present n2; known n2; counted 1"},
		"and new since the last scale, which may have added it or not": {
			View{Desired: 2, Size: 2, SizeUncertain: true, Before: four, Nodes: []Node{node("n1"), node("n5", recent)}}, "present n1 n5; known n1; counted 2",
		},
		"and new since the last scale, which is certain": {
			View{Desired: 2, Size: 2, Before: four, Nodes: []Node{node("n1"), node("n5", recent)}}, "present n1 n5; known n1 n5; counted 2",
		},
		"uncertain: new since the last scale, and Ready": {
			View{Desired: 2, Size: 2, SizeUncertain: true, Before: four, Nodes: []Node{node("n1"), node("n5")}}, "present n1 n5; known n1 n5; counted 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.view.ClusterID, test.view.Now = "c1", epoch.Add(time.Hour)
			if diff := cmp.Diff(test.want, seen(Decide(test.view))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestObserve checks when a scale-down is compared with the nodes that it left, and what it shows.
func TestObserve(t *testing.T) {
	var eight []Node
	for i := range 8 {
		eight = append(eight, node(fmt.Sprintf("n%d", i+1)))
	}
	one := threeBound[:1]
	outcomes{
		"seven of eight went, the newest": {
			View{Desired: 1, Size: 1, ScaledDown: true, Before: Snapshot(eight), Nodes: three[:1], Machines: one}, "observed Newest",
		},
		"none existed before": {see("1/1 scaledDown n1 m1/n1"), ""},
		"it has not finished": {View{Desired: 1, Size: 1, Before: Snapshot(eight), Nodes: three[:1], Machines: one}, ""},
		"one more exists":     {View{Desired: 1, Size: 1, ScaledDown: true, Before: Snapshot(eight), Nodes: three[:2], Machines: one}, "1 free"},
		"the portal works again": {
			View{Desired: 1, Size: 1, Activity: AddingNodes, ScaledDown: true, Before: Snapshot(eight), Nodes: three[:1], Machines: one}, "",
		},
	}.check(t)
}
