// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// made puts a node into the batch of an operation that made it at the given second after epoch.
func made(batch string, second int) func(*Node) {
	return func(n *Node) { n.Batch, n.Created = batch, epoch.Add(time.Duration(second)*time.Second) }
}

func at(position int) func(*Node) { return func(n *Node) { n.Position = position } }

// TestLearn checks what a scale-down from n1 … n4, which four operations made, shows about the portal.
func TestLearn(t *testing.T) {
	four := []Node{node("n1"), node("n2"), node("n3"), node("n4")}
	twins := []Node{node("n1", made("a", 0)), node("n2", made("a", 0)), node("n3"), node("n4")}
	tests := map[string]struct {
		learned Order
		before  []Node
		now     []string
		want    Order
	}{
		"the newest went again":                    {Newest, four, []string{"n1", "n2", "n3"}, Newest},
		"the oldest went":                          {"", four, []string{"n3", "n4"}, Oldest},
		"one of many is enough":                    {"", four, []string{"n1", "n2", "n3"}, Newest},
		"once the oldest, then the newest":         {Oldest, four, []string{"n1", "n2"}, Random},
		"some in between, the first time":          {"", four, []string{"n1", "n2", "n4"}, Random},
		"of one batch either may go":               {Oldest, twins, []string{"n1", "n3", "n4"}, Oldest},
		"what fits both orders shows nothing":      {"", twins[:2], []string{"n1"}, ""},
		"nor does it contradict anything":          {Random, twins[:2], []string{"n1"}, Random},
		"all went":                                 {"", four, nil, ""},
		"none went":                                {Oldest, four, []string{"n1", "n2", "n3", "n4"}, Oldest},
		"the newest went, and new ones came since": {"", four, []string{"n1", "n2", "n5", "n6"}, Newest},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := (Evidence{Order: test.learned}).learn(Snapshot(test.before), named(test.now)).Order; got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func named(names []string) (nodes []Node) {
	for _, name := range names {
		nodes = append(nodes, node(name))
	}
	return nodes
}

// TestLearnWithinABatch checks what a removal shows about the order within a batch. A tie or a guess is no knowledge.
func TestLearnWithinABatch(t *testing.T) {
	// The portal made n3, n4 and n5 in this order, and they joined in another one.
	batch := []Node{node("n1", made("", 0)), node("n2", made("", 9)), node("n3", made("a", 102), at(3)), node("n4", made("a", 100), at(4)), node("n5", made("a", 101), at(5))}
	together := []Node{node("n1", made("", 0)), node("n3", made("a", 100)), node("n4", made("a", 100)), node("n10", made("a", 100))}
	within := func(position, age, name Order) map[Key]Order {
		all := map[Key]Order{}
		for key, order := range map[Key]Order{ByPosition: position, ByAge: age, ByName: name} {
			if order != "" {
				all[key] = order
			}
		}
		return all
	}
	tests := map[string]struct {
		known  Evidence
		before []Node
		now    []string
		want   Evidence
	}{
		"the last in the list went, which was not the youngest": {
			Evidence{}, batch, []string{"n1", "n2", "n3", "n4"}, Evidence{Order: Newest, Within: within(Newest, Random, Newest)},
		},
		"then the youngest, which was the first": {
			Evidence{Order: Newest, Within: within(Newest, Random, Newest)}, batch[:4], []string{"n1", "n2", "n4"},
			Evidence{Order: Newest, Within: within(Random, Random, Random)},
		},
		"the whole batch went": {Evidence{}, batch, []string{"n1", "n2"}, Evidence{Order: Newest}},
		"of one second, and not in any list: the names show it, by number": {
			Evidence{}, together, []string{"n1", "n3", "n4"}, Evidence{Order: Newest, Within: within("", "", Newest)},
		},
		"a cluster whose nodes the creation made shows no order between batches": {
			Evidence{}, batch[:2], []string{"n2"}, Evidence{Within: within("", Oldest, Oldest)},
		},
		"the times of two operations overlap, so what they made is one batch": {
			Evidence{}, []Node{node("n1", made("a", 0)), node("n2", made("b", 5)), node("n3", made("a", 9))}, []string{"n1", "n3"},
			Evidence{Within: within("", Random, Random)},
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.known.learn(Snapshot(test.before), named(test.now))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHexadecimalNames checks that names with the time of creation in hexadecimal digits sort by it.
func TestHexadecimalNames(t *testing.T) {
	for _, pair := range [][2]string{{"c-node-18f9a4b2c5d", "c-node-18fa04b2c5d"}, {"c-node-9", "c-node-10"}, {"c-18f10a", "c-18f9ab"}} {
		if ByName.compare(NodeSnapshot{Name: pair[0]}, NodeSnapshot{Name: pair[1]}) >= 0 {
			t.Errorf("%s is not older than %s", pair[0], pair[1])
		}
	}
}
