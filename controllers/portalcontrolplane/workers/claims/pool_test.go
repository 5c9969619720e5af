// SPDX-License-Identifier: Apache-2.0

package claims

import "testing"

// TestPool checks which nodes a pool gets, and which it has to wait for.
func TestPool(t *testing.T) {
	rules{
		"nodes that no Machine claims, as many as its replicas":    {"3/3 n1 n2 n3 pool=2", "list cloud://n3 cloud://n2; 1 free"},
		"a Machine that waits comes first":                         {"2/2 n1 n2 m1 pool=1", "list cloud://n2, hooks m1, bind m1/n1"},
		"Machines of a roll-out hold all nodes: the pool waits":    {"2/2 n1 n2 m1/n1:outdated m2/n2 pool=1", "1 missing"},
		"a node without a providerID is listed before it is named": {"1/1 n1:nameless pool=1", "list portal://c1/n1, name n1"},
		"interrupted between the two":                              {"1/1 n1:nameless pool=1 named:n1", "name n1"},
		"a node that is not initialized is not listed":             {"2/2 n1:uninitialized n2 pool=2", "list cloud://n2; 1 missing; 1 free"},
		"nor under a name that core knows":                         {"1/1 n1:uninitialized pool=1 knows:n1", "1 missing; 1 free"},
		"two Nodes with the same providerID are listed once":       {"2/2 n1 n2:sameIDAs=n1 pool=2", "list cloud://n1"},
		"a node of it that is not Ready":                           {"1/1 n1:notReady pool=1 lists:n1", "not ready n1"},
		"not while the portal removes nodes":                       {"2/2 removing target=1 n1 n2 pool=2", "2 missing; 2 free"},
		"a Machine takes one that the pool has too many, not two": {
			"3/2 n1 n2 m1 m2 pool=1 lists:n1:n2", "hooks m1, bind m1/n1, scale 3; 1 unbound",
		},
		"a node that two Machines share is not one too many": {
			"3/2 n1 n2 m1/n1:outdated:deleting m2/n1 m3 pool=1 lists:n1:n2", "detach m1, scale 3; 1 unbound",
		},
	}.check(t)
}

// TestPoolShrinks checks how nodes of a pool are removed.
func TestPoolShrinks(t *testing.T) {
	rules{
		"the newest is drained by the provider":                   {"2/3 n1 n2 n3 m1/n1 pool=1 lists:n2:n3", "evict n3; 1 free; after 5s"},
		"drained: the portal is asked, the ID stays":              {"2/3 n1 n2 n3:gone m1/n1 pool=1 lists:n2:n3", "scale 2; drained n3"},
		"the node is gone and the job runs: the ID stays":         {"2/2 removing target=2 n1 n2 m1/n1 pool=1 lists:n2:n3", ""},
		"the job has ended: the ID goes":                          {"2/2 n1 n2 m1/n1 pool=1 lists:n2:n3", "list cloud://n2"},
		"the Node counts as no worker any more: the ID stays":     {"1/1 n1 pool=1 lists:n1:n2 others:n2", ""},
		"the newest goes, and is the pool's: it gets another one": {"1/2 n1 n2 pool=1 lists:n2", "list cloud://n2 cloud://n1, evict n2; 1 free; after 5s"},
		"a Machine goes, and the newest is the pool's":            {"2/3 n1 n2 n3 m1/n1:deleting pool=2 lists:n2:n3", "move m1/n3; 1 missing"},
		"core has yet to delete a Machine: the pool's node waits": {"2/3 n1 n2 n3 m1/n1 pool=2 lists:n2:n3", ""},
	}.check(t)
}

// TestPoolEnds checks that a pool that is being deleted keeps its list until its nodes are gone, or belong to others.
func TestPoolEnds(t *testing.T) {
	rules{
		"its nodes are drained":            {"1/2 n1 n2 m1/n1 ending lists:n2", "evict n2; 1 free; after 5s"},
		"not while the portal works":       {"1/1 removing target=1 n1 m1/n1 ending lists:n1:n2", ""},
		"a Machine waits: it takes a node": {"1/1 n1 m1 ending lists:n1", "list, hooks m1, bind m1/n1"},
		"a node that is not initialized does not hurry it": {
			"1/3 n1:uninitialized n2 n3 ending lists:n2:n3", "evict n3, evict n2; 3 free; after 5s",
		},
		"of an adopted cluster: its nodes stay": {"0/-1 adopted n1 ending lists:n1", "list; 1 free"},
	}.check(t)
}

// TestPoolKnows checks that a Node gets no providerID under a name by which core would delete it, even if a Machine has it.
func TestPoolKnows(t *testing.T) {
	rules{
		"core has yet to copy the list": {"1/1 n1:nameless m1 pool=0 named:n1 knows:n1", "1 unbound; 1 free"},
		"core has copied it: the Machine gets the node": {
			"1/1 n1:nameless m1 pool=0 named:n1 copied:n1 knows:n1", "name n1, hooks m1, bind m1/n1",
		},
		"core's copy has the ID of the earlier Node": {
			"1/1 n1:nameless m1 pool=0 copied:n1 knows:n1", "list portal://c1/n1; 1 unbound; 1 free",
		},
		"core does not copy the list of a pool that ends": {"1/1 n1:nameless m1 ending knows:n1", "1 unbound; 1 free"},
		"unless the copy has the ID":                      {"1/1 n1:nameless m1 ending copied:n1 knows:n1", "name n1, hooks m1, bind m1/n1"},
		"a Node with another providerID is listed at once": {
			"1/1 n1:notReady:young pool=0 knows:n1", "list cloud://n1; 1 free; not ready n1; after 30s",
		},
		"no held Machine takes it along": {"1/2 n1 n2:nameless m1/n1:deleting ending knows:n2", "detach m1, evict n2; 1 free; after 5s"},
		"nor does a Machine move there":  {"1/3 n1:nameless n2 n3 m2/n3 ending lists:n2 knows:n1", "list, evict n2; 2 free; after 5s"},
	}.check(t)
}
