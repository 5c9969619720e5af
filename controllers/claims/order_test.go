// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"
)

// TestLearn checks what a scale-down from n1 … n4 shows about the portal.
func TestLearn(t *testing.T) {
	four := []Node{node("n1"), node("n2"), node("n3"), node("n4")}
	same := func(n *Node) { n.Created = epoch.Add(time.Minute) }
	twins := []Node{node("n1", same), node("n2", same), node("n3"), node("n4")}
	tests := map[string]struct {
		learned Order
		before  []Node
		now     []string
		want    Order
	}{
		"the newest went":                          {"", four, []string{"n1", "n2"}, Newest},
		"the newest went again":                    {Newest, four, []string{"n1", "n2", "n3"}, Newest},
		"the oldest went":                          {"", four, []string{"n3", "n4"}, Oldest},
		"one of many is enough":                    {"", four, []string{"n1", "n2", "n3"}, Newest},
		"once the oldest, then the newest":         {Oldest, four, []string{"n1", "n2"}, Random},
		"some in between":                          {Newest, four, []string{"n1", "n4"}, Random},
		"some in between, the first time":          {"", four, []string{"n1", "n2", "n4"}, Random},
		"no order before, none now":                {Random, four, []string{"n1", "n2"}, Random},
		"of the same second either may go":         {Oldest, twins, []string{"n1", "n3", "n4"}, Oldest},
		"what fits both orders shows nothing":      {"", twins[:2], []string{"n1"}, ""},
		"nor does it contradict anything":          {Random, twins[:2], []string{"n1"}, Random},
		"all went":                                 {"", four, nil, ""},
		"none went":                                {Oldest, four, []string{"n1", "n2", "n3", "n4"}, Oldest},
		"the newest went, and new ones came since": {"", four, []string{"n1", "n2", "n5", "n6"}, Newest},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			var now []Node
			for _, name := range test.now {
				now = append(now, node(name))
			}
			if got := test.learned.learn(Snapshot(test.before), now); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
