// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func pinned(n *Node)    { n.Pinned = true }
func protected(n *Node) { n.ScaleDownDisabled = true }
func usersTrue(n *Node) { n.ScaleDownSetByUser, n.Pinned = true, true }
func usersOwn(n *Node)  { n.ScaleDownSetByUser = true }

// TestProtectFromAutoscaler checks which Nodes the cluster autoscaler is kept from choosing. In every case the replicas ask for
// three workers, unless the view says something else.
func TestProtectFromAutoscaler(t *testing.T) {
	all := []Node{node("n1", protected), node("n2", protected), node("n3", protected)}
	tests := map[string]struct {
		view View
		want string
	}{
		"none has a Pod that must stay":             {View{Nodes: three}, ""},
		"it had one":                                {View{Nodes: all}, "unprotect n1, unprotect n2, unprotect n3"},
		"the next to go has one":                    {View{Nodes: []Node{node("n1"), node("n2"), node("n3", pinned)}}, "protect n1, protect n2, protect n3"},
		"the second has one, so it and those after": {View{Nodes: []Node{node("n1"), node("n2", pinned), node("n3")}}, "protect n1, protect n2"},
		"the last has one":                          {View{Nodes: []Node{node("n1", pinned), node("n2"), node("n3")}}, "protect n1"},
		"the oldest go first":                       {View{Order: Oldest, Nodes: []Node{node("n1"), node("n2", pinned), node("n3")}}, "protect n2, protect n3"},
		"the Pod has moved away from the first":     {View{Nodes: []Node{node("n1", protected), node("n2", protected, pinned), node("n3", protected)}}, "unprotect n3"},
		"done already":                              {View{Nodes: []Node{node("n1", protected), node("n2", protected, pinned), node("n3")}}, ""},
		"two have one":                              {View{Nodes: []Node{node("n1", pinned), node("n2", pinned), node("n3")}}, "protect n1, protect n2"},

		"no order":         {View{Order: Random, Nodes: three}, "protect n1, protect n2, protect n3"},
		"no order, done":   {View{Order: Random, Nodes: all}, ""},
		"no order, pinned": {View{Order: Random, Nodes: []Node{node("n1", pinned), node("n2"), node("n3")}}, "protect n1, protect n2, protect n3"},

		"more workers than replicas":             {View{Desired: 2, Nodes: three}, "protect n1, protect n2, protect n3"},
		"more, and their drain has ended":        {View{Desired: 2, Nodes: []Node{node("n1"), node("n2"), node("n3", just)}}, "protect n1, protect n2, protect n3"},
		"more, and the portal is asked for less": {View{Desired: 2, Size: 2, Activity: RemovingNodes, Target: 2, Nodes: three}, "protect n1, protect n2, protect n3"},
		"as many, but the job still runs":        {View{Activity: RemovingNodes, Target: 3, Nodes: all}, ""},
		"as many, and the job has ended":         {View{Nodes: all}, "unprotect n1, unprotect n2, unprotect n3"},
		"the portal replaces nodes":              {View{Activity: ReplacingNodes, Nodes: three}, "protect n1, protect n2, protect n3"},
		"the portal adds nodes":                  {View{Desired: 4, Size: 4, Activity: AddingNodes, Nodes: all}, "unprotect n1, unprotect n2, unprotect n3"},
		"fewer workers than replicas":            {View{Desired: 4, Nodes: all}, "unprotect n1, unprotect n2, unprotect n3"},

		"those of the pool always are":             {View{Nodes: three, Pool: pool(0, "n2")}, "protect n2"},
		"also those that a Machine took, and back": {View{Nodes: []Node{node("n1", protected), node("n2", protected), node("n3")}, Pool: pool(0, "n1")}, "unprotect n2"},

		"the user's true counts like a Pod, and stays as it is": {View{Nodes: []Node{node("n1"), node("n2", usersTrue), node("n3")}}, "protect n1"},
		"the user's own value stays while all are protected":    {View{Desired: 2, Nodes: []Node{node("n1"), node("n2", usersOwn), node("n3")}}, "protect n1, protect n3"},
		"and afterwards": {View{Nodes: []Node{node("n1", protected), node("n2", usersOwn), node("n3", protected)}}, "unprotect n1, unprotect n3"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			plan := Decide(autoscaledView(test.view))
			if diff := cmp.Diff(test.want, protections(plan)); diff != "" {
				t.Error(diff)
			}
			if looksAgain := plan.RequeueAfter > 0 && plan.RequeueAfter <= podsInterval; !looksAgain && test.view.Order != Random {
				t.Errorf("the Pods are looked at again after %s", plan.RequeueAfter)
			}
		})
	}
}

// TestScaleDownNotAutoscaled checks that no node is protected if no autoscaler may scale, and that the protection is removed.
func TestScaleDownNotAutoscaled(t *testing.T) {
	for title, test := range map[string]struct {
		view View
		want string
	}{
		"never was":                  {View{Nodes: []Node{node("n1"), node("n2", pinned), node("n3")}}, ""},
		"never was, too many":        {View{Desired: 2, Nodes: three}, ""},
		"never was, no order":        {View{Order: Random, Nodes: three}, ""},
		"not any more":               {View{Nodes: []Node{node("n1", protected), node("n2", protected, pinned), node("n3")}}, "unprotect n1, unprotect n2"},
		"not any more, too many":     {View{Desired: 2, Nodes: []Node{node("n1", protected), node("n2"), node("n3", protected)}}, "unprotect n1, unprotect n3"},
		"not any more, no order":     {View{Order: Random, Nodes: []Node{node("n1", protected), node("n2"), node("n3")}}, "unprotect n1"},
		"not any more, of the pool":  {View{Nodes: []Node{node("n1", protected), node("n2"), node("n3")}, Pool: pool(0, "n1")}, "unprotect n1"},
		"not any more, user's value": {View{Nodes: []Node{node("n1", usersTrue), node("n2", usersOwn), node("n3")}}, ""},
	} {
		t.Run(title, func(t *testing.T) {
			view := autoscaledView(test.view)
			view.Autoscaled = false
			plan := Decide(view)
			if diff := cmp.Diff(test.want, protections(plan)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// autoscaledView completes a view of an autoscaled cluster whose Machines hold all nodes that stay, the oldest ones.
func autoscaledView(v View) View {
	v.ClusterID, v.Autoscaled, v.Now = "c1", true, epoch.Add(time.Hour)
	if v.Desired == 0 {
		v.Desired = 3
	}
	if v.Size == 0 {
		v.Size = 3
	}
	v.Machines = threeBound[:min(v.Desired, len(threeBound))]
	return v
}

// protections formats only what concerns the autoscaler.
func protections(p Plan) string {
	var words changes
	for _, w := range p.Writes {
		on := w.Node.Want.ScaleDownDisabled
		words.add(on != w.Node.Seen.ScaleDownDisabled, either(on, "protect ", "unprotect ")+w.Node.Seen.Name)
	}
	return strings.Join(words, ", ")
}
