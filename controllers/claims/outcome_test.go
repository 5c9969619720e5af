// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// outcomes are like rules, and include everything that the plan waits for.
type outcomes map[string]struct {
	view View
	want string
}

func (o outcomes) check(t *testing.T) {
	t.Helper()
	for name, row := range o {
		t.Run(name, func(t *testing.T) {
			row.view.ClusterID, row.view.Now = "c1", epoch.Add(time.Hour)
			if diff := cmp.Diff(row.want, said(Decide(row.view))); diff != "" {
				t.Error(diff)
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
	moves := summary(p)
	add(moves != "", "%s", moves)
	add(p.Unbound != 0, "%d unbound", p.Unbound)
	add(p.Missing != 0, "%d missing", p.Missing)
	add(p.Free != 0, "%d free", p.Free)
	for _, list := range []struct {
		word  string
		names []string
	}{
		{"lost", p.LostNodes}, {"draining", p.Draining}, {"draining nodes", p.DrainingNodes}, {"drained", p.Drained},
		{"mismatched", p.Mismatched}, {"not ready", p.NotReady},
	} {
		add(len(list.names) > 0, "%s %s", list.word, strings.Join(list.names, " "))
	}
	add(p.Reached, "reached")
	add(p.SizeCertain, "certain")
	add(p.OrderObserved, "observed %s", p.Evidence.Order)
	add(p.RequeueAfter != 0, "after %v", p.RequeueAfter)
	return strings.Join(words, "; ")
}

func away(n *Node)        { n.Ready, n.NotReadySince = false, epoch.Add(10*time.Minute) }            // for 50 minutes
func recent(n *Node)      { n.Ready, n.NotReadySince = false, epoch.Add(56*time.Minute) }            // for 4 minutes
func young(n *Node)       { n.Created = epoch.Add(59*time.Minute + 30*time.Second) }                 // for 30 seconds
func asked(n *Node)       { n.Cordoned, n.Drained = true, epoch.Add(59*time.Minute+30*time.Second) } // joinTime is not over
func unhooked(m *Machine) { m.PreDrain, m.PreTerminate = false, false }
func passed(m *Machine)   { m.Deleting, m.Drained = true, true } // core went past the pre-drain hook without a drain

// TestWaits checks what a plan reports that it waits for, and when the next plan is made.
func TestWaits(t *testing.T) {
	outcomes{
		"for a node": {see("m2"), "1 unbound"},
		"for a template that the portal can honor":                                        {see("m3:mismatch"), "mismatched m3"},
		"not for the template of a Machine that has a node":                               {see("1/1 n1 m1/n1:mismatch"), ""},
		"nor for that of an outdated one":                                                 {see("m3:mismatch:outdated"), ""},
		"for other nodes than those that are gone, of Machines that are up to date first": {see("m1/n2:outdated m2/n9"), "2 unbound; lost n9 n2"},
		"a free node that is not Ready has a minute":                                      {see("1/1 n1:notReady:young"), "1 free; after 30s"},
		"its minute is over":                                                              {see("1/1 n1:notReady"), "1 free"},
		"a node that is Ready needs no time":                                              {see("1/1 n1:young"), "1 free"},
		"a node that a Machine holds needs none either":                                   {see("1/1 n1:notReady:young m1/n1"), "not ready n1"},
		"nor one while others are on order":                                               {see("2/2 adding n1:notReady:young"), "1 free"},
		"nor one while the number of workers is uncertain":                                {see("2/1 uncertain n1:notReady:young"), "scale 2; 1 free"},
		"a node that goes is drained, and looked at again":                                {see("0/1 n1:notReady:young"), "evict n1; 1 free; after 5s"},
		"for the drain of core":                                                           {see("1/2 n1 n2 m1/n1 m2/n2:draining"), "draining m2"},
		"for the drain that it has core begin":                                            {see("0/2 n1 n2 m2/n2:deleting m3/n1:deleting"), "drain m2, drain m3; draining m2 m3"},
		"for no drain of a Machine whose node is gone":                                    {see("0/0 m1/n1:draining"), "detach m1"},
		"for no drain of a Machine that core has yet to hold":                             {see("1/1 n1 m1/n1:deleting:unhooked"), ""},
		"for the drain of a node, and for the removal of a drained one": {
			see("1/3 n1 n2:asked n3:evicting m1/n1"), "evict n3; draining nodes n3; drained n2; after 5s",
		},
		"a node that is cordoned and Ready is free": {see("2/2 n1 n2:cordoned m1/n1"), "1 free"},
	}.check(t)
}

// TestSeparate checks when a Machine that has a node gets another one.
func TestSeparate(t *testing.T) {
	outcomes{
		"two share a node, and none takes over: the younger one gets the free one": {see("2/2 n1 n2 m1/n2 m3/n2"), "bind m3/n1"},
		"one takes the node over: they go on to share it":                          {see("2/2 n1 n2 m1/n2:outdated m3/n2"), "1 free"},
		"the node is not Ready for long":                                           {see("2/2 n1:away n2 m1/n1"), "bind m1/n2; not ready n1"},
		"not Ready for long, as the free one is":                                   {see("2/2 n1:away n2:lost m1/n1"), "1 free; not ready n1"},
		"not Ready, but not for long: looked at again when it is":                  {see("2/2 n1:recent n2 m1/n1"), "1 free; not ready n1; after 1m0s"},
		"Ready":                               {see("2/2 n1 n2 m1/n1"), "1 free"},
		"not while the portal removes nodes":  {see("2/2 removing target=2 n1:recent n2:away m1/n1:shielded m2/n2:shielded"), "not ready n1 n2"},
		"nor while it replaces them":          {see("2/2 replacing n1:away n2 m1/n1:shielded"), "1 free; not ready n1"},
		"not to a node that is being drained": {see("1/0 n2:evicting m2"), "scale 1; 1 unbound; 1 free"},
	}.check(t)
}

// TestTakeoverBeyond checks how many Machines may take over nodes, and which nodes.
func TestTakeoverBeyond(t *testing.T) {
	outcomes{
		"the one that takes over is not without a node": {see("1/1 n1 m1/n1:outdated m4"), "delete-first m1, hooks m4, bind m4/n1"},
		"one beyond the number of workers: one takes over, and another one waits": {
			see("2/2 n1 n2 m1/n1:outdated m2/n2:outdated m3 m4:outdated"), "delete-first m1, hooks m3, bind m3/n1; 1 unbound",
		},
		"two wait for nodes on order: one may take over": {
			see("3/3 n1 n2 m1/n1:outdated m2/n2:outdated m3 m4"), "delete-first m1, hooks m3, bind m3/n1; 1 unbound",
		},
		"Machines that share a node are not beyond the number":            {see("4/2 n1 n2 m1/n1 m2 m3/n2:outdated m4/n1"), "scale 4; 1 unbound"},
		"nor is one that is being deleted":                                {see("2/1 n1 m1 m2/n1:outdated m3/n1:drained"), "detach m3, scale 2; 1 unbound"},
		"nor one whose template the portal cannot honor":                  {see("2/2 n1 m1/n1:outdated m2 m3:mismatch"), "1 unbound; mismatched m3"},
		"but one with such a template that has a node is":                 {see("1/1 n1 m3/n1:mismatch:outdated m4"), "delete-first m3, hooks m4, bind m4/n1"},
		"not the node of another one that is not Ready":                   {see("1/1 n1:away m1 m2/n1:outdated"), "1 unbound; not ready n1"},
		"of two that are marked the oldest":                               {see("2/2 n1 n2 m1/n1:outdated:first m2/n2:outdated:first m3"), "hooks m3, bind m3/n1"},
		"not while the portal removes nodes":                              {see("1/1 removing n1 m1 m3/n1:outdated:shielded"), "1 unbound"},
		"nor while it replaces them":                                      {see("1/1 replacing n1 m1 m3/n1:outdated:shielded"), "1 unbound"},
		"hooks that are missing come back while the portal removes nodes": {see("1/1 removing n1 m2/n1:unhooked:shielded"), "hooks m2"},
		"a node is free":                {see("2/2 n1 n2 m1/n1:outdated m2"), "hooks m2, bind m2/n2"},
		"the portal adds a node for it": {see("2/2 n1 m1/n1:outdated m2"), "1 unbound"},
	}.check(t)
}

// TestNeeded checks that a node is removed only if no live Machine needs it.
func TestNeeded(t *testing.T) {
	outcomes{
		"a Machine without a node needs one":                  {see("0/1 n1 m2"), "hooks m2, bind m2/n1"},
		"one whose template the portal cannot honor does not": {see("0/1 n1 m1:mismatch"), "evict n1; 1 free; mismatched m1; after 5s"},
		"unless it has a node":                                {see("0/1 n1 m1/n1:mismatch"), ""},
		"two that share a node need one":                      {see("1/2 n1 n2 m1/n1 m2/n1"), "evict n2; 1 free; after 5s"},
		"more nodes than the portal runs: some may be gone":   {see("n1"), "1 free"},
		"it runs none for certain, and a Node is left behind": {see("uncertain n1:lost"), "scale 0; 1 free; after 20m0s"},
		"a node that is not Ready counts":                     {see("0/1 autoscaled n1:away"), "protect n1, evict n1; 1 free; after 5s"},
		"also beside one that is":                             {see("1/2 autoscaled n1 n2:away"), "protect n1, protect n2, evict n2; 2 free; after 5s"},
		"but not while nodes are on order":                    {see("1/2 autoscaled adding n1 n2:notReady m1/n1"), "1 free; after 10s"},
	}.check(t)
}

// TestHeldOnes checks what happens to Machines that are being deleted, by the state of their nodes.
func TestHeldOnes(t *testing.T) {
	outcomes{
		"core may finish already: it gets no drain":        {see("1/2 n1 n2 m1/n2:deleting:unhooked"), "1 free"},
		"two on one node, and core has drained it for one": {see("0/1 n1:cordoned m1/n1:drained m2/n1:deleting"), "mark n1, detach m1, detach m2"},
		"two on one node, of which one cannot be drained: the live Machine is not moved there": {
			see("1/2 n1 n2 m1/n1:deleting m2/n2 m3/n1:passed"), "detach m1, detach m3",
		},
		"its node is gone, and one of the same name goes": {see("0/1 n1:reborn m1/n1:deleting"), "detach m1, evict n1; 1 free; after 5s"},
		"core went past the hook: it goes with no node":   {see("1/2 n1 n2 m1/n1:passed"), "detach m1, evict n2; 1 free; after 5s"},
		"both nodes go: it goes with its own":             {see("0/2 n1 n2 m1/n1:deleting"), "drain m1, evict n2; 1 free; draining m1; after 5s"},
	}.check(t)
}

// TestLeftOver checks which Node objects are deleted.
func TestLeftOver(t *testing.T) {
	outcomes{
		"of a drained machine that is gone":                     {see("n1:gone:away"), "delete n1"},
		"not of one that was not drained":                       {see("n1:away"), ""},
		"not if the number of workers is not known":             {see("1/-1 n1:gone:away"), "drained n1"},
		"nor if it is uncertain":                                {see("1/1 uncertain n1 n2:gone:away m1/n1"), "scale 1"},
		"nor while the portal works":                            {see("adding n1:gone:away"), "drained n1"},
		"nor while fewer others are Ready than the portal runs": {see("2/2 n1 n2:gone:away m1/n1"), "drained n2"},
		"not one that a Machine shows, whatever it is":          {see("n1:reborn:gone:recent m2/n1"), "1 unbound; lost n1"},
		"not one that a Machine holds":                          {see("n1:gone:away m1/n1:blank"), "1 unbound; lost n1"},
		"but one that a Machine has been released from":         {see("n1:gone:away m1/n1:detached:shown:forgotten"), "remove-hooks m1, delete n1"},
	}.check(t)
}
