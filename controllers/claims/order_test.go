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
		learned ObservedOrder
		before  []Node
		now     []string
		want    ObservedOrder
	}{
		"the newest went, which 1 in 6 choices is":   {ObservedOrder{}, four, []string{"n1", "n2"}, ObservedOrder{Newest, 6}},
		"once more, which settles it":                {ObservedOrder{Newest, 6}, four, []string{"n1", "n2", "n3"}, ObservedOrder{Newest, 20}},
		"the oldest went":                            {ObservedOrder{}, four, []string{"n3", "n4"}, ObservedOrder{Oldest, 6}},
		"once the oldest, then the newest":           {ObservedOrder{Oldest, 6}, four, []string{"n1", "n2"}, ObservedOrder{Random, 0}},
		"some in between":                            {ObservedOrder{Newest, 20}, four, []string{"n1", "n4"}, ObservedOrder{Random, 0}},
		"no order before, none now":                  {ObservedOrder{Random, 0}, four, []string{"n1", "n2"}, ObservedOrder{Random, 0}},
		"of the same second either may go":           {ObservedOrder{Oldest, 4}, twins, []string{"n1", "n3", "n4"}, ObservedOrder{Oldest, 16}},
		"what fits both orders shows nothing":        {ObservedOrder{}, twins[:2], []string{"n1"}, ObservedOrder{}},
		"all went":                                   {ObservedOrder{}, four, nil, ObservedOrder{}},
		"none went":                                  {ObservedOrder{Oldest, 4}, four, []string{"n1", "n2", "n3", "n4"}, ObservedOrder{Oldest, 4}},
		"the newest went, and new ones came since":   {ObservedOrder{}, four, []string{"n1", "n2", "n5", "n6"}, ObservedOrder{Newest, 6}},
		"one of many: a portal without an order may": {ObservedOrder{}, four, []string{"n1", "n2", "n3"}, ObservedOrder{Newest, 4}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			var now []Node
			for _, name := range test.now {
				now = append(now, node(name))
			}
			if got := test.learned.learn(Snapshot(test.before), now); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}
