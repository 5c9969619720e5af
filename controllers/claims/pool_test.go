// SPDX-License-Identifier: Apache-2.0

package claims

import "testing"

// pool has so many replicas, and lists the nodes.
func pool(replicas int, nodes ...string) *Pool {
	p := &Pool{Replicas: replicas}
	for _, n := range nodes {
		p.List = append(p.List, "cloud://"+n)
	}
	return p
}

// sameIDAs gives a Node the providerID of another one.
func sameIDAs(other string) func(*Node) { return func(n *Node) { n.ProviderID = "cloud://" + other } }

// ending is a pool that is being deleted.
func ending(nodes ...string) *Pool {
	p := pool(3, nodes...)
	p.Deleting = true
	return p
}

// TestPool checks which nodes a pool gets, and which it has to wait for.
func TestPool(t *testing.T) {
	outcomes{
		"nodes that no Machine claims":     {see("3/3 n1 n2 n3 m1/n1 pool=2"), "list cloud://n3 cloud://n2"},
		"a Machine that waits comes first": {see("2/2 n1 n2 m1 pool=1"), "list cloud://n2, hooks m1, bind m1/n1"},
		"no more than its replicas: the third node is for a Machine that core has yet to create": {
			see("3/3 n1 n2 n3 pool=2"), "list cloud://n3 cloud://n2; 1 free",
		},
		"Machines of a roll-out hold all nodes: the pool waits":    {see("2/2 n1 n2 m1/n1:outdated m2/n2 pool=1"), "1 missing"},
		"a node without a providerID is listed before it is named": {see("1/1 n1:nameless pool=1"), "list portal://c1/n1, name n1"},
		"a node that is not initialized is not listed, or the list would name a providerID that it never has": {
			see("2/2 n1:uninitialized n2 pool=2"), "list cloud://n2; 1 missing; 1 free",
		},
		"nor under a name that core knows": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", uninitialized)}, Pool: &Pool{Replicas: 1, Known: []string{"n1"}}}, "1 missing; 1 free",
		},
		"interrupted between the two": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", nameless)}, Pool: &Pool{Replicas: 1, List: []string{"portal://c1/n1"}}}, "name n1",
		},
		"a new Node gets a minute to become Ready":                  {see("1/1 n1:notReady:young pool=1"), "1 missing; 1 free; after 30s"},
		"two Nodes with the same providerID are listed once":        {see("2/2 n1 n2:sameIDAs=n1 pool=2"), "list cloud://n1"},
		"a node of it that is not Ready":                            {see("1/1 n1:notReady pool=1:n1"), "not ready n1"},
		"not while the portal removes nodes":                        {see("2/2 removing target=1 n1 n2 pool=2"), "2 missing; 2 free"},
		"a Machine takes no node that the pool needs":               {see("3/2 n1 n2 m1 pool=2:n1:n2"), "scale 3; 1 unbound"},
		"but one that the pool has too many, at once: no node goes": {see("2/2 n1 n2 m1 pool=1:n1:n2"), "hooks m1, bind m1/n1"},
		"but not two if it has one too many":                        {see("3/2 n1 n2 m1 m2 pool=1:n1:n2"), "hooks m1, bind m1/n1, scale 3; 1 unbound"},
		"a listed node that two Machines share is not one too many": {
			see("3/2 n1 n2 m1/n1:outdated:deleting m2/n1 m3 pool=1:n1:n2"), "detach m1, scale 3; 1 unbound",
		},
		"the node that a Machine has taken counts no more, but stays listed": {see("2/2 n1 n2 m1/n1 pool=1:n1:n2"), ""},
		"a Machine gives its node back: it is the pool's":                    {see("2/2 n1 n2 pool=2:n1"), "list cloud://n1 cloud://n2"},
		"a new Machine of a roll-out takes a node over from an outdated one, not from the pool": {
			see("2/2 n1 n2 m1/n1:outdated m2 pool=1:n2"), "delete-first m1, hooks m2, bind m2/n1",
		},
	}.check(t)
}

// TestPoolShrinks checks how nodes of a pool are removed.
func TestPoolShrinks(t *testing.T) {
	outcomes{
		"the newest is drained by the provider":           {see("2/3 n1 n2 n3 m1/n1 pool=1:n2:n3"), "evict n3; 1 free; after 5s"},
		"drained: the portal is asked, the ID stays":      {see("2/3 n1 n2 n3:gone m1/n1 pool=1:n2:n3"), "scale 2; drained n3"},
		"the node is gone and the job runs: the ID stays": {see("2/2 removing target=2 n1 n2 m1/n1:shielded pool=1:n2:n3"), ""},
		"the job has ended: the ID goes":                  {see("2/2 n1 n2 m1/n1 pool=1:n2:n3"), "list cloud://n2"},
		"the Node object is left behind: the ID stays":    {see("2/2 n1 n2 n3:notReady m1/n1 pool=1:n2:n3"), ""},
		"the Node counts as no worker any more: the ID stays": {
			View{Desired: 1, Size: 1, Nodes: three[:1], Pool: &Pool{Replicas: 1, List: []string{"cloud://n1", "cloud://n2"}, Others: []string{"cloud://n2"}}},
			"",
		},
		"the portal replaces nodes: one that comes back has its ID still":             {see("2/2 replacing n1 pool=2:n1:n2"), "1 missing"},
		"a Machine holds the newest: it moves to the node that the pool has too many": {see("2/3 n1 n2 n3 m1/n3 pool=1:n1:n2"), "bind m1/n1"},
		"a Machine goes, and the newest is the pool's: core drains that one, and the pool gets the Machine's": {
			see("2/3 n1 n2 n3 m1/n1:deleting pool=2:n2:n3"), "swap m1/n3; 1 missing",
		},
		"core has yet to delete a Machine: the pool's node waits for it": {see("2/3 n1 n2 n3 m1/n1 pool=2:n2:n3"), ""},
		"to zero": {see("0/1 n1 pool=0:n1"), "evict n1; 1 free; after 5s"},
	}.check(t)
}

// TestPoolEnds checks that a pool that is being deleted keeps its list until its nodes are gone, or belong to others.
func TestPoolEnds(t *testing.T) {
	outcomes{
		"its nodes are drained":            {see("1/2 n1 n2 m1/n1 ending:n2"), "evict n2; 1 free; after 5s"},
		"they are gone":                    {see("1/1 n1 m1/n1 ending:n1:n2"), "list"},
		"not while the portal works":       {see("1/1 removing target=1 n1 m1/n1:shielded ending:n1:n2"), ""},
		"a Machine waits: it takes a node": {see("1/1 n1 m1 ending:n1"), "list, hooks m1, bind m1/n1"},
		"the portal refuses a cluster without workers: the last one stays": {see("1/1 n1 ending:n1"), "list; 1 free"},
		"a node that is not initialized does not hurry it: its nodes are drained first": {
			see("1/3 n1:uninitialized n2 n3 ending:n2:n3"), "evict n3, evict n2; 3 free; after 5s",
		},
		"of an adopted cluster: its nodes stay": {see("0/-1 adopted n1 ending:n1"), "list; 1 free"},
	}.check(t)
}

// knowing is the pool of a core that found its nodes under these names, and has copied the list since if the names are in it.
func knowing(p *Pool, names ...string) *Pool {
	p.Known = names
	return p
}

// TestPoolKnows checks that a Node gets no providerID under a name by which core would delete it, even if a Machine has it.
func TestPoolKnows(t *testing.T) {
	reborn := see("1/1 n1:nameless m1")
	with := func(p *Pool) View {
		v := reborn
		v.Pool = p
		return v
	}
	id := "portal://c1/n1"
	outcomes{
		"core has yet to copy the list": {with(&Pool{List: []string{id}, Known: []string{"n1"}}), "1 unbound; 1 free"},
		"core has copied it: the Machine gets the node": {
			with(&Pool{List: []string{id}, Copied: []string{id}, Known: []string{"n1"}}), "name n1, hooks m1, bind m1/n1",
		},
		"core's copy has the ID of the earlier Node, and the list does not any more": {
			with(&Pool{Copied: []string{id}, Known: []string{"n1"}}), "list portal://c1/n1; 1 unbound; 1 free",
		},
		"core does not copy the list of a pool that is being deleted: the node waits": {
			with(&Pool{Deleting: true, Known: []string{"n1"}}), "1 unbound; 1 free",
		},
		"unless the copy has the ID": {with(&Pool{Deleting: true, Copied: []string{id}, Known: []string{"n1"}}), "name n1, hooks m1, bind m1/n1"},
		"a Node that comes with another providerID is listed at once": {
			View{Desired: 1, Size: 1, Nodes: []Node{node("n1", notReady, young)}, Pool: knowing(pool(0), "n1")}, "list cloud://n1; 1 free; not ready n1; after 30s",
		},
		"no held Machine takes it along": {
			View{Desired: 1, Size: 2, Nodes: []Node{node("n1"), node("n2", nameless)}, Machines: []Machine{machine("m1", "n1", deleting)},
				Pool: &Pool{Replicas: 1, Deleting: true, Known: []string{"n2"}}},
			"detach m1, evict n2; 1 free; after 5s",
		},
		"nor does a Machine move there before the pool is gone: it goes at once": {
			View{Desired: 1, Size: 3, Nodes: []Node{node("n1", nameless), node("n2"), node("n3")}, Machines: []Machine{machine("m2", "n3")},
				Pool: &Pool{Deleting: true, List: []string{"cloud://n2"}, Known: []string{"n1"}}},
			"list, evict n2; 2 free; after 5s",
		},
	}.check(t)
}
