// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rules are clusters one hour after they were created, in the words of see, with what follows from them: the writes, the request, and what
// the plan waits for.
type rules map[string]struct{ view, want string }

func (r rules) check(t *testing.T) {
	t.Helper()
	for name, rule := range r {
		t.Run(name, func(t *testing.T) {
			plan := Decide(see(rule.view))
			if diff := cmp.Diff(rule.want, said(plan)); diff != "" {
				t.Error(diff)
			}
			for _, w := range plan.Writes {
				if w.Why == "" {
					t.Errorf("%s: without a reason", w.brief())
				}
			}
		})
	}
}

// said formats a plan with everything that it waits for.
func said(p Plan) string {
	var words []string
	add := func(yes bool, format string, a ...any) {
		if yes {
			words = append(words, fmt.Sprintf(format, a...))
		}
	}
	writes := summary(p)
	add(writes != "", "%s", writes)
	add(p.Unbound != 0, "%d unbound", p.Unbound)
	add(p.Missing != 0, "%d missing", p.Missing)
	add(p.Free != 0, "%d free", p.Free)
	for _, list := range []struct {
		word  string
		names []string
	}{
		{"lost", p.LostNodes}, {"draining", p.Draining}, {"draining nodes", p.DrainingNodes}, {"drained", p.Drained},
		{"mismatched", p.Mismatched}, {"not ready", p.NotReady}, {"undrained", p.Undrained},
	} {
		add(len(list.names) > 0, "%s %s", list.word, strings.Join(list.names, " "))
	}
	add(p.AnyMayGo, "any may go")
	add(p.Reached, "reached")
	add(p.SizeCertain, "certain")
	add(p.OrderObserved, "observed %s", p.Evidence.Order)
	add(p.RequeueAfter != 0, "after %v", p.RequeueAfter)
	return strings.Join(words, "; ")
}

// TestBind checks which node a Machine without one gets, and when a Machine that has a node gets another one.
func TestBind(t *testing.T) {
	rules{
		"hooks first, then the identity of the oldest free node to the oldest Machine": {
			"2/2 n1 n2 m2 m1", "hooks m1, hooks m2, bind m1/n1, bind m2/n2",
		},
		"a Node without providerID gets one": {"1/1 n1:nameless m1", "name n1, hooks m1, bind m1/n1"},
		"a Node that is not initialized gets no providerID, and no Machine": {
			"2/2 n1:uninitialized n2 m1 m2", "hooks m1, bind m1/n2; 1 unbound; 1 free",
		},
		"a Node that does not become Ready is bound all the same": {"1/1 n1:minute m1", "hooks m1, bind m1/n1"},
		"nor while it is uncertain whether its machine exists":    {"1/2 uncertain n1 n2:notReady m1/n1 m2", "1 unbound; 1 free"},
		"Ready nodes first": {"2/2 n1:notReady n2 m1", "hooks m1, bind m1/n2; 1 free"},
		"a free node goes to the MachineDeployment that held it last": {
			"2/2 n1:last=b n2:last=a m1:of=a m2:of=b", "hooks m1, hooks m2, bind m1/n2, bind m2/n1",
		},
		"during an upgrade to a Ready node only": {"2/2 replacing n1:notReady n2 m1 m2", "hooks m1, bind m1/n2; 1 unbound; 1 free"},
		"not to a node that goes, nor to one that is drained": {
			"1/3 n1:evicting n2 n3:gone m1", "uncordon n1, evict n2; 1 unbound; 2 free; drained n3; after 5s",
		},
		"not while the portal removes nodes":                      {"1/1 removing target=1 n1 n2 m1", "1 unbound; 2 free"},
		"hooks that are missing come back":                        {"1/1 removing n1 m2/n1:unhooked", "hooks m2"},
		"a Node of the same name but another UID is another Node": {"1/1 n1:reborn m1/n1", "move m1/n1"},

		"its node is not Ready for long":              {"2/2 n1:away n2 m1/n1", "move m1/n2; not ready n1"},
		"nor is the free one":                         {"2/2 n1:away n2:lost m1/n1", "1 free; not ready n1"},
		"not for long: looked at again when it is":    {"2/2 n1:recent n2 m1/n1", "1 free; not ready n1; after 1m0s"},
		"two share a node: the younger gets the free": {"2/2 n1 n2 m1/n2 m3/n2", "move m3/n1"},
		"no other node while the portal removes some": {
			"2/2 removing target=2 n1:recent n2:away m1/n1 m2/n2", "not ready n1 n2",
		},
	}.check(t)
}

// TestTakeover checks how new Machines of a rolling update take over the nodes of old ones.
func TestTakeover(t *testing.T) {
	rules{
		"the new Machine beyond the number of workers shares the node of an outdated one": {
			"2/2 n1 n2 m1/n1:of=a:outdated m2/n2:of=a:outdated m3:of=a", "delete-first m1, hooks m3, bind m3/n1",
		},
		"then the marked one is held, and released": {
			"2/2 n1 n2 m1/n1:of=a:outdated:first:deleting m2/n2:of=a:outdated m3/n1:of=a", "detach m1",
		},
		"only within the same MachineDeployment": {"1/1 n1 m1/n1:of=a:outdated m3:of=b", "1 unbound"},
		"two wait for nodes on order: one may take over": {
			"3/3 n1 n2 m1/n1:outdated m2/n2:outdated m3 m4", "delete-first m1, hooks m3, bind m3/n1; 1 unbound",
		},
		"of two that are marked the oldest":                 {"2/2 n1 n2 m1/n1:outdated:first m2/n2:outdated:first m3", "hooks m3, bind m3/n1"},
		"of one that is marked and an older one the marked": {"2/2 n1 n2 m1/n1:outdated m2/n2:outdated:first m3", "hooks m3, bind m3/n2"},
		"once":                               {"1/1 n1 m1/n1:outdated m2/n1 m3", "1 unbound"},
		"not from a node that is not Ready":  {"1/1 n1:notReady m1/n1:outdated m2", "1 unbound; not ready n1"},
		"not while the portal removes nodes": {"1/1 removing n1 m1 m3/n1:outdated", "1 unbound"},
		"not a node that its Machine leaves, because it goes": {
			"2/4 Oldest n1 n2 n3 n4:fresh:notReady m1/n1:outdated m2/n2 m3/n3:deleting m4", "move m1/n3; 1 unbound; 1 free; after 1m0s",
		},
		"not from the pool": {"2/2 n1 n2 m1/n1:outdated m2 pool=1 lists:n2", "delete-first m1, hooks m2, bind m2/n1"},
	}.check(t)
}

// TestSwap checks how a Machine that is being deleted gets the node that the portal will remove.
func TestSwap(t *testing.T) {
	rules{
		"the Machine that holds the oldest, which is to go, moves over": {"2/3 Oldest n1 n2 n3 m1/n1 m2/n2 m3/n3:deleting", "move m1/n3"},
		"next: the held one takes the node that is free now":            {"2/3 n1 n2 n3 m1/n1:deleting m2/n2 m3/n1:was=n3", "move m1/n3"},
		"next: a node that stays loses the autoscaler's taint first": {
			"2/3 n1:tainted n2 n3 m1/n1:deleting m2/n2 m3/n1:was=n3", "uncordon n1, move m1/n3",
		},
		"then: nodeRefs": {"2/3 n1 n2 n3 m1/n3:deleting:ref=n1 m2/n2 m3/n1:ref=n3", "point m1/n3, point m3/n1"},
		"others are drained already: they wait, for one request for all": {
			"1/3 n1 n2 n3:just m1/n1:deleting m2/n2", "move m2/n1; drained n3; after 1m0s",
		},
		"not to a node that is not initialized":                               {"1/2 Newest n1:uninitialized n2 m2/n2", "1 free"},
		"no held Machine is of that MachineDeployment":                        {"1/2 n1 n2 m1/n1:of=a:deleting:ruled=a m2/n2:of=b", "note n1, detach m1"},
		"then the provider drains the node, by the rules of its last Machine": {"1/2 n1 n2 m2/n2:of=b:ruled=b", "note n2, move m2/n1"},

		"core drains a node for one of several Machines": {"0/1 n1 m1/n1:deleting m2/n1:deleting", "drain m1; draining m1"},
		"it has begun with the last, and the first is drained no more": {
			"1/2 n1 n2 m1/n2:passed m2/n2:deleting m3/n2:draining", "detach m1, detach m2; 1 free; draining m3",
		},
		"a node that core went past costs more than a free one": {"1/2 Random n1 n2 m1/n1:passed", "detach m1; 1 free"},
		"one of two cannot be drained: no live Machine is moved there": {
			"1/2 n1 n2 m1/n1:deleting m2/n2 m3/n1:passed", "detach m1, detach m3",
		},
		"of two free nodes that go, the first":                     {"1/3 n1 n2 n3 m1/n1:deleting", "move m1/n3, evict n2; 1 free; after 5s"},
		"two Machines do not move to one node":                     {"3/5 n1 n2 n3 n4 n5 m1/n1:deleting m4/n4 m5/n5", "move m4/n2, move m5/n1; 1 free"},
		"nor to one that another Machine has":                      {"2/3 n1 n2 n3 m1/n1:deleting m2/n1 m3/n3", "detach m1, move m3/n2"},
		"one that moves for a swap does not move for its own sake": {"3/4 Oldest n1:away n2 n3 n4 m1/n1 m2/n2 m3/n3:deleting", "move m1/n3; 1 free; not ready n1"},
		"both nodes go: it goes with its own":                      {"0/2 n1 n2 m1/n1:deleting", "drain m1, evict n2; 1 free; draining m1; after 5s"},
	}.check(t)
}

// TestLeaving checks which nodes are removed, and what happens to them before.
func TestLeaving(t *testing.T) {
	rules{
		"held with a surplus: drain":                           {"2/3 n1 n2 n3 m1/n1 m2/n2 m3/n3:deleting", "drain m3; draining m3"},
		"drained, and core has yet to delete one more Machine": {"1/3 n1 n2 n3:gone m1/n1 m2/n2", "scale 2; drained n3"},
		"a drain that blocks: after a minute those before it go": {
			"1/3 n1 n2 n3:gone m1/n1 m2/n2:draining", "scale 2; draining m2; drained n3",
		},
		"a drain that blocks: all wait if the order is not known": {
			"1/3 Random n1 n2 n3:gone m1/n1 m2/n2:draining", "draining m2; drained n3",
		},
		"the provider drains a node without a Machine, and continues": {
			"1/3 n1 n2:asked n3:evicting m1/n1", "evict n3; draining nodes n3; drained n2; after 5s",
		},
		"replicas rise after a refusal: the last in the order stays": {
			"2/3 n1 n2:gone n3:gone m1/n1 m4", "uncordon n2; 1 unbound; drained n2 n3",
		},
		"not while the portal removes nodes": {
			"2/3 uncertain answerLost removing target=1 n1 n2:gone n3:gone m1/n1 m4", "1 unbound; drained n2 n3",
		},
		"but at once when it is seen that it has removed another node": {
			"2/2 removing target=2 n2 n3:gone m1/n1 m2/n2", "uncordon n3; 1 unbound; lost n1; drained n3",
		},
		"scale up cancels a drain that was not sent": {"3/3 n1 n2 n3:cordoned m1/n1 m2/n2 m3/n3:draining", "detach m3; draining m3"},

		"nor while an upgrade replaces nodes, because others may exist afterwards": {
			"2/3 replacing n1 n2 n3:evicting m1/n1 m2/n2", "1 free",
		},
		"a Machine that the portal cannot honor needs no node":     {"0/1 n1 m1:mismatch", "evict n1; 1 free; mismatched m1; after 5s"},
		"two that share a node need one":                           {"1/2 n1 n2 m1/n1 m2/n1", "evict n2; 1 free; after 5s"},
		"it runs none for certain, and a Node is left behind":      {"uncertain n1:lost", "scale 0; 1 free; after 20m0s"},
		"more nodes than it was asked for: they are counted first": {"1/2 n1 n2 n3:gone m1/n1", "1 free; drained n3"},
		"a drained node that a Machine holds goes after its move":  {"1/2 n2 n3:gone m1/n3", "move m1/n2; drained n3"},
		"five minutes are exactly over":                            {"1/3 n1 n2:five n3 m1/n1", "evict n3; 2 free; after 5s"},
	}.check(t)
}

// TestRelease checks how a Machine that is being deleted gives its node back.
func TestRelease(t *testing.T) {
	rules{
		"core has drained a node that goes: the node keeps a mark": {
			"1/2 n1 n2:cordoned m1/n1 m2/n2:drained:ruled=a", "mark+note n2, detach m2",
		},
		"core has drained a node that stays: it gets no mark":                          {"1/1 n1 m1/n1:drained", "detach m1"},
		"core has drained a node that goes, and Pods are on it again: it gets no mark": {"1/2 n1 n2 m1/n1 m2/n2:drained", "detach m2"},
		"a portal that upgrades the node has not decided: core drains on":              {"1/2 replacing n1 n2:cordoned m1/n1 m2/n2:draining", "draining m2"},
		"but not if another Machine has it by now":                                     {"1/1 replacing n1 m1/n1:draining m2/n1", "detach m1; draining m1"},
		"a Machine that core drains still names a node that stays, which it would cordon again": {
			"2/2 n1 n2:gone m1/n1 m2/n1:deleting:was=n2", "detach m2; drained n2",
		},
		"a node that stays and cannot be changed is not waited for": {"1/3 n1:evicting:refused n2:gone n3:gone m1/n1", "uncordon n1, scale 1; drained n2 n3"},
		"nor one that core has drained, of a Machine that was released": {
			"1/3 n1:cordoned:refused n2:gone n3:gone m1/n1:drained:detached:shown:forgotten m4/n1", "uncordon n1, scale 1; drained n2 n3",
		},
		"core skipped the drain: a node that a user had cordoned is not drained": {"0/1 n1:cordoned m1/n1:skipped", "detach m1"},
		"more than the portal runs, but as many as are desired":                  {"1/0 n1 m1/n1:deleting", "detach m1, scale 1"},
		"more than are desired: it may go with a node":                           {"1/0 n1 n2 m1/n1:deleting", "1 free"},
		"it never had a node":                       {"0/0 m2:deleting:hooked", "remove-hooks m2"},
		"it shows a node that it was not given":     {"m1:deleting:hooked:was=n1", "detach m1"},
		"it was given a node, and does not show it": {"m2/n9:blank:passed", "detach m2"},
		"released: its nodeRef goes":                {"0/0 m1/n1:detached:shown", "forget m1"},
		"also if its node was drained, because core deletes the Node that it names": {
			"1/1 n1:cordoned m1/n1:detached:shown:noPreDrain", "forget m1; 1 free",
		},
		"then its hooks": {"0/0 m1/n1:detached:shown:forgotten", "remove-hooks m1"},
		"released, and the node that core has drained stays":     {"1/1 n1:cordoned m1/n1:drained:detached:shown:forgotten m2/n1", "uncordon n1"},
		"released, and core drains the node for another Machine": {"0/1 n1:cordoned m1/n1:drained:detached:shown:forgotten m2/n1:draining", "remove-hooks m1; draining m2"},
		"released without a drain: a node that a user has cordoned stays so": {
			"1/1 n1:cordoned m1/n1:detached:shown:forgotten m2/n1", "remove-hooks m1",
		},
		"released before it shows any providerID: core may be about to write it": {"0/0 m1/n1:detached:blank", ""},
		"released so, and its PortalMachine is deleted: core takes nothing over": {"0/0 m1/n1:detached:blank:orphaned", "remove-hooks m1"},
		"restored, a Machine that was being deleted is not any more":             {"1/1 n1:cordoned m1/n1:draining:kept", "uncordon n1, hooks m1"},
		"restored, and the portal is removing nodes: it is seen afterwards": {
			"1/1 removing n1:cordoned n2 m1/n1:draining:kept m2/n2", "",
		},
	}.check(t)
}

// TestWaits checks what a plan reports that it waits for.
func TestWaits(t *testing.T) {
	rules{
		"for a node": {"m2", "1 unbound"},
		"for other nodes than those that are gone, of up-to-date Machines first": {"m1/n2:outdated m2/n9", "2 unbound; lost n9 n2"},
		"for a node that is not Ready":                                           {"1/1 n1:notReady:young m1/n1", "not ready n1"},
		"for a template that the portal can honor":                               {"m3:mismatch", "mismatched m3"},
	}.check(t)
}

// TestLeftOver checks which Node objects of removed machines are deleted.
func TestLeftOver(t *testing.T) {
	rules{
		"of a drained machine that is gone":                     {"1/1 n1 n2:gone:away m1/n1", "delete n2"},
		"not of one that was not drained":                       {"n1:away", ""},
		"not if the number of workers is not known":             {"1/-1 n1:gone:away", "drained n1"},
		"not one that a Machine holds":                          {"n1:gone:away m1/n1:blank", "1 unbound; lost n1"},
		"not while fewer others are Ready than the portal runs": {"2/2 n1 n2:gone:away m1/n1", "drained n2"},
		"but one that a Machine has been released from":         {"n1:gone:away m1/n1:detached:shown:forgotten", "remove-hooks m1, delete n1"},
	}.check(t)
}

// TestProtectFromAutoscaler checks which Nodes the cluster autoscaler is kept from choosing.
func TestProtectFromAutoscaler(t *testing.T) {
	rules{
		"none if no autoscaler may scale": {"3/3 n1:protected n2:protected:pinned n3 m1/n1 m2/n2 m3/n3", "unprotect n1, unprotect n2"},
		"the next to go has a Pod that must stay": {
			"3/3 autoscaled n1 n2 n3:pinned m1/n1 m2/n2 m3/n3", "protect n1, protect n2, protect n3; after 10s",
		},
		"the last has one":    {"3/3 autoscaled n1:pinned n2 n3 m1/n1 m2/n2 m3/n3", "protect n1; after 10s"},
		"the oldest go first": {"3/3 autoscaled Oldest n1 n2:pinned n3 m1/n1 m2/n2 m3/n3", "protect n2, protect n3; after 10s"},
		"the Pod has moved away from the first": {
			"3/3 autoscaled n1:protected n2:protected:pinned n3:protected m1/n1 m2/n2 m3/n3", "unprotect n3; after 10s",
		},
		"no order": {"3/3 autoscaled Random n1 n2 n3 m1/n1 m2/n2 m3/n3", "protect n1, protect n2, protect n3"},
		"more workers than replicas": {
			"2/3 autoscaled n1 n2 n3 m1/n1 m2/n2", "protect n1, protect n2, protect n3, evict n3; 1 free; after 5s",
		},
		"more, and their drain has ended": {
			"2/3 autoscaled n1 n2 n3:just m1/n1 m2/n2", "protect n1, protect n2, protect n3, scale 2; drained n3; after 10s",
		},
		"more, of which one is not Ready": {"1/2 autoscaled n1 n2:away", "protect n1, protect n2, evict n2; 2 free; after 5s"},
		"as many, but the job still runs": {
			"3/3 autoscaled removing target=3 n1:protected n2:protected n3:protected m1/n1 m2/n2 m3/n3", "after 10s",
		},
		"fewer workers than replicas": {
			"4/3 autoscaled n1:protected n2:protected n3:protected m1/n1 m2/n2 m3/n3", "unprotect n1, unprotect n2, unprotect n3, scale 4; after 10s",
		},
		"those of the pool":                   {"3/3 autoscaled n1 n2 n3 m1/n1 m2/n2 m3/n3 pool=0 lists:n2", "protect n2; after 10s"},
		"the first of the pool":               {"3/3 autoscaled n1 n2 n3 m1/n1 pool=2 lists:n2:n3", "protect n2, protect n3; after 10s"},
		"unless the autoscaler can remove it": {"3/3 autoscaled n1 n2 n3 m1/n1 pool=2 lists:n2:n3 shrinks", "protect n2; after 10s"},
		"none behind a Machine's":             {"3/3 autoscaled n1 n2 n3 m3/n3 pool=2 lists:n1:n2 shrinks", "protect n1, protect n2; after 10s"},
		"no first one with a Pod that stays":  {"2/2 autoscaled n1 n2:pinned pool=2 lists:n1:n2 shrinks", "protect n1, protect n2; after 10s"},
		"the user's true counts like a Pod":   {"3/3 autoscaled n1 n2:usersTrue n3 m1/n1 m2/n2 m3/n3", "protect n1; after 10s"},
		"the user's own value stays":          {"2/3 autoscaled n1 n2:usersOwn n3 m1/n1 m2/n2", "protect n1, protect n3, evict n3; 1 free; after 5s"},
		"and afterwards":                      {"3/3 autoscaled n1:protected n2:usersOwn n3:protected m1/n1 m2/n2 m3/n3", "unprotect n1, unprotect n3; after 10s"},
	}.check(t)
}

// TestReasons checks the reasons that a person reads in the log and with the request.
func TestReasons(t *testing.T) {
	const three, next = "the sum of the replicas is 2, and the number of workers is 3", ". The portal is expected to remove Node "
	const drained = "; drained, and expected to be removed (Newest first): "
	for view, want := range map[string][]string{
		"2/2 n1:nameless n2 m1 m2/n9": {
			"name n1: Machine m1 gets it", "hooks m1: it had no Node", "bind m1/n1: it had no Node", "move m2/n2: its Node n9 is gone",
		},
		"1/1 n1 m1/n1:unhooked": {"hooks m1: it has Node n1"},
		"2/2 n1 n2 m1/n1 m2/n1": {"move m2/n2: it shared Node n1"},
		"1/1 n1 m1/n1:of=a:outdated m3:of=a": {
			"delete-first m1: the up-to-date Machine m3 takes its Node over", "hooks m3: it takes the Node of the outdated Machine m1 over",
			"bind m3/n1: it takes the Node of the outdated Machine m1 over",
		},
		"2/2 n1 n2:longGone m2/n2": {"move m2/n1: Node n2 has not been Ready since 2026-01-01T00:00:00Z"},
		"2/3 Oldest n1 n2 n3:gone m1/n1 m2/n2": {
			"uncordon n3: it stays: " + three,
		},
		"2/3 Newest assumed n1 n2 n3 m1/n1:deleting m2/n2 m3/n3": {
			"move m3/n1: " + three + next + "n3 next (Newest first, which is assumed). Machine m1, which is being deleted, gets Node n3",
		},
		"2/3 Random n1 n2 n3 m1/n1:deleting m2/n2 m3/n3": {"drain m1: " + three + next + "n1 next (its order is unknown)"},
		"1/2 n1 n2:cordoned m1/n1 m2/n2:drained:ruled=a": {
			"mark+note n2: core did it for Machine m2", "detach m2: core has drained its Node",
		},
		"1/1 n1:cordoned m1/n1:draining:kept": {
			"uncordon n1: Machine m1 is not being deleted any more", "hooks m1: it is not being deleted any more",
		},
		"1/1 autoscaled Newest n1:pinned m1/n1": {
			"protect n1: the cluster autoscaler may remove the nodes that the portal removes first (Newest first), up to one with a Pod that must stay",
		},
		"1/1 autoscaled Random n1 m1/n1": {
			"protect n1: the cluster autoscaler may remove no node now: the sum of the replicas is 1, and the number of workers is 1",
		},
		"1/1 n1:protected m1/n1": {"unprotect n1: the cluster autoscaler scales nothing here"},
		"3/2 n1 n2 m1/n1 m2/n2":  {"the sum of the replicas is 3, and the number of workers is 2"},
		"2/3 uncertain Newest n1 n2 n3:gone m1/n1 m2/n2": {
			three + "; it is uncertain how many workers the portal runs" + drained + "n3",
		},
		"2/3 uncertain answerLost mayResend Newest removing target=2 n1 n2 n3:gone": {three + "; the answer to the last request was lost" + drained + "n3"},
		"0/2 unasked Newest n1 n2:gone":                                             {"no object asks for workers, and the number of workers is 2" + drained + "n2"},
		"0/12 Newest n1:gone n2:gone n3:gone n4:gone n5:gone n6:gone n7:gone n8:gone n9:gone n10:gone n11:gone n12:gone": {
			"the sum of the replicas is 0, and the number of workers is 12" + drained + "n12, n11, n10, n9, n8, n7, n6, n5, n4, n3, 2 more",
		},
	} {
		t.Run(view, func(t *testing.T) {
			plan := Decide(see(view))
			var got []string
			for _, w := range plan.Writes {
				got = append(got, w.brief()+": "+w.Why)
			}
			if plan.Scale {
				got = append(got, plan.Why)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
