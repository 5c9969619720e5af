// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// TestSize checks when the portal is asked for another number of workers.
func TestSize(t *testing.T) {
	rules{
		"scale up only to what is desired, not to what was accepted already": {"5/5 n1 n2 n3 m1/n1 m2/n2 m3/n3", ""},
		"two are missing, and not desired any more: they are counted first":  {"3/5 n1 n2 n3 m1/n1 m2/n2 m3/n3", ""},
		"scale up while nodes of a finished scale-down are not seen to be gone": {
			"4/2 n1 n2 n3:just m1/n1 m2/n2 before n1 n2 n3", "scale 4; drained n3",
		},
		"more nodes than it was asked for and than are desired, before they are counted: a scale-up would remove one": {
			"4/3 n1 n2 n3 n4 n5 m1/n1 m2/n2 m3/n3 m4/n4", "1 free",
		},
		"nothing while an operation runs":              {"5/3 adding n1 n2 n3 m1/n1 m2/n2 m3/n3", ""},
		"not down before core has picked its Machines": {"1/3 n1 n2 n3 m1/n1 m2/n2 m3/n3", ""},
		"not while a Machine still shows the node":     {"2/3 n1 n2 n3:gone m1/n1 m2/n2:was=n3", "drained n3"},
		"again after a lost answer, whatever is seen":  {"removing target=2 mayResend", "scale 2"},
		"core may have cordoned a node that stays":     {"1/1 uncertain answerLost n1 m1/n1:drained", "detach m1"},
		"core has not touched it":                      {"1/1 uncertain n1:recent m2/n1:detached", "scale 1; 1 free; after 1m0s"},
	}.check(t)
}

// TestAssumedOrder checks that a request removes one node while the order of removal is assumed, unless no node stays.
func TestAssumedOrder(t *testing.T) {
	rules{
		"two too many":                     {"1/3 assumed n1 n2:gone n3:gone m1/n1", "scale 2; drained n2 n3"},
		"more than exist":                  {"1/5 assumed uncertain n1 n2:gone n3:gone m1/n1", "scale 2; drained n2 n3"},
		"all, drained: no order is needed": {"0/3 assumed n1:gone n2:gone n3:gone", "scale 0; drained n1 n2 n3"},
		"all, and one still drains": {
			"0/3 assumed n1:evicting n2:gone n3:gone", "evict n1, scale 2; draining nodes n1; drained n2 n3; after 5s",
		},
		"the answer was lost": {
			"1/3 assumed uncertain removing target=2 answerLost mayResend n1 n2:gone n3:gone m1/n1", "scale 2; drained n2 n3",
		},
		"a roll-out on lost nodes": {"1/4 assumed uncertain n1 n2 n3:lost n4:gone m1/n1 m2/n2 m3/n3", "drained n4; not ready n3"},
	}.check(t)
}

// TestUncertainSize checks what the portal is asked for, and which nodes are drained, while it is unknown how many workers it runs. The size is
// the largest number that it may run.
func TestUncertainSize(t *testing.T) {
	rules{
		"right": {"3/4 uncertain n1 n2 n3 m1/n1 m2/n2 m3/n3", "certain"},
		"right, and one is not Ready: asked for, which settles it": {
			"3/3 uncertain n1 n2 n3:notReady m1/n1 m2/n2 m3/n3", "scale 3; not ready n3",
		},
		"one too many, drained and not Ready":                 {"2/3 uncertain n1 n2 n3:gone:notReady m1/n1 m2/n2", "scale 2; drained n3"},
		"one too many, lost for long":                         {"2/3 uncertain n1 n2 n3:lost m1/n1 m2/n2", "evict n3; 1 free; after 5s"},
		"two too many, one drained just now: others may join": {"1/3 uncertain n1 n2 n3:asked m1/n1 m2/n2", "drained n3; after 30s"},
		"three too many, two drained, one of them not Ready: the third is waited for": {
			"1/4 uncertain n1 n2 n3:gone n4:gone:notReady m1/n1 m2/n2", "drained n3 n4",
		},
		"one too many, in a cluster that was taken over": {"2/3 adopted uncertain n1 n2 n3 m1/n1 m2/n2", "1 free"},
		"one too many, and either may go of two that are to be drained": {
			"1/2 uncertain drainPossible n1:old n2:old m1/n1", "1 free; any may go",
		},
		"one too many, lost, and either may go of two that are to be drained": {
			"1/2 uncertain drainPossible n1:old n2:old:lost m1/n1 m2/n2", "not ready n2",
		},
		"right, and every node that may go is to be drained: none goes": {
			"3/3 uncertain assumed drainPossible n1 n2 n3:notReady m1/n1 m2/n2 m3/n3", "scale 3; not ready n3",
		},
		"drained, but the others are away": {
			"1/4 uncertain n1 n2:notReady n3:notReady n4:gone m1/n1 m2/n2 m3/n3", "drained n4; not ready n2 n3",
		},
		"no order, one still drains": {
			"1/3 uncertain Random n1 n2:evicting n3:gone m1/n1", "evict n2; draining nodes n2; drained n3; after 5s",
		},
		"a roll-out on lost nodes: what is desired": {"1/3 uncertain n1 n2:lost n3:gone m1/n1 m2/n2", "scale 1; drained n3; not ready n2"},
		"the last one goes if there are three, and the second if there are two": {
			"1/3 uncertain n1 n2 n3:notReady:fresh m1/n1", "evict n3, evict n2; 2 free; after 5s",
		},
		"the first stays, even before core has made its Machine": {
			"1/3 uncertain n1 n2 n3:notReady:fresh", "evict n3, evict n2; 3 free; after 5s",
		},
		"it runs two at most: either of the last two may be gone": {
			"1/2 uncertain n1 n2 n3:notReady:fresh m1/n1", "evict n3, evict n2; 2 free; after 5s",
		},
	}.check(t)
}

// TestAskAgain checks the request after a lost answer: its number is right whether or not the portal acted on the first request.
func TestAskAgain(t *testing.T) {
	rules{
		"not yet":                     {"3/3 uncertain answerLost removing target=2 n1 n2 n3:gone", "2 free; drained n3"},
		"down, and the replicas rose": {"3/3 uncertain answerLost mayResend removing target=2 n1 n2 n3:gone", "scale 3; 2 free; drained n3"},
		"down, and the replicas fell": {"1/3 uncertain answerLost mayResend removing target=2 n1 n2 n3:gone", "scale 2; 2 free; drained n3"},
		"up, fell: first nodes drain": {"1/5 uncertain answerLost mayResend adding target=5 n1 n2 n3", "evict n3, evict n2; 3 free; after 5s"},
		"down, and it is seen":        {"2/3 uncertain answerLost removing target=2 n1 n2", "2 free; reached"},
		"up, and it is seen":          {"3/3 uncertain answerLost mayResend adding target=3 n1 n2 n3", "3 free; reached"},
		"up, and it is nearly seen":   {"3/3 uncertain answerLost mayResend adding target=3 n1 n2 n3:notReady", "scale 3; 3 free"},
	}.check(t)
}

// TestPresent checks which nodes' machines appear to exist, which are known to, and how many workers the portal appears to run.
func TestPresent(t *testing.T) {
	tests := rules{
		"one too many, and two are not Ready: the one that no Machine holds": {"0/1 n1:lost n2:notReady m2/n2", "n2; n2; 1"},
		"it may have Pods, as it was Ready a short time ago":                 {"0/1 n1:notReady n2:notReady m2/n2", "n1 n2; n1 n2; 1"},
		"a Machine that was released holds none": {
			"0/2 n1:notReady n2:lost n3:notReady m1/n1 m2/n2:detached m3/n3", "n1 n3; n1 n3; 2",
		},
		"uncertain: not Ready for five minutes, and more are desired than are Ready": {"1/1 uncertain n3:lost", "; ; 0"},
		"uncertain: it may still have to go":                                         {"0/1 uncertain n3:lost", "n3; n3; 1"},
		"uncertain, and new since the last scale":                                    {"2/2 uncertain n1 n5:recent before n1 n2 n3 n4", "n1 n5; n1; 2"},
		"uncertain: new since the last, and Ready":                                   {"2/2 uncertain n1 n5 before n1 n2 n3 n4", "n1 n5; n1 n5; 2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			names := func(list []removal.NodeSnapshot) string {
				var all []string
				for _, s := range list {
					all = append(all, s.Name)
				}
				return strings.Join(all, " ")
			}
			p := Decide(see(test.view))
			if diff := cmp.Diff(test.want, fmt.Sprintf("%s; %s; %d", names(Snapshot(p.Present)), names(p.Before), p.Counted)); diff != "" {
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
	kinds := []string{
		"n%[1]d m%[1]d/n%[1]d", "n%[1]d", "n%[1]d:gone", "n%[1]d:evicting", "n%[1]d:notReady m%[1]d/n%[1]d", "n%[1]d:notReady", "n%[1]d:lost",
		"n%[1]d:gone:lost",
	}
	requests, clusters := 0, []string{""}
	for i := range 4 {
		var larger []string
		for _, cluster := range clusters {
			requests += judgeUncertain(t, see("Newest "+cluster)) + judgeUncertain(t, see("Oldest "+cluster))
			judgeUncertain(t, see("Newest assumed "+cluster))
			judgeUncertain(t, see("Oldest assumed "+cluster))
			for _, kind := range kinds {
				larger = append(larger, cluster+" "+fmt.Sprintf(kind, i+1))
			}
		}
		clusters = larger
	}
	if requests == 0 {
		t.Error("nothing was asked for")
	}
}

// judgeUncertain decides with every number of replicas and every size, judges the requests, and counts them.
func judgeUncertain(t *testing.T, v View) (requests int) {
	v.SizeUncertain = true
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
	if v.Order != removal.Oldest {
		slices.Reverse(line)
	}
	for _, n := range line[:max(0, len(line)-size)] {
		if !n.drained() {
			return n.Name
		}
	}
	return ""
}
