// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"
)

// TestLearn tells what a scale-down from n1 … n4 says about the portal.
func TestLearn(t *testing.T) {
	four := []Node{node("n1"), node("n2"), node("n3"), node("n4")}
	same := func(n *Node) { n.Created = epoch.Add(time.Minute) }
	twins := []Node{node("n1", same), node("n2", same), node("n3"), node("n4")}
	tests := map[string]struct {
		expected Order
		before   []Node
		now      []string
		want     Order
	}{
		"the newest went":                          {NewestFirst, four, []string{"n1", "n2"}, NewestFirst},
		"the oldest went":                          {NewestFirst, four, []string{"n3", "n4"}, OldestFirst},
		"the oldest went again":                    {OldestFirst, four, []string{"n4"}, OldestFirst},
		"once the oldest, then the newest":         {OldestFirst, four, []string{"n1", "n2"}, NoOrder},
		"some in between":                          {NewestFirst, four, []string{"n1", "n4"}, NoOrder},
		"no order before, none now":                {NoOrder, four, []string{"n1", "n2"}, NoOrder},
		"of the same second either may go":         {OldestFirst, twins, []string{"n1", "n3", "n4"}, OldestFirst},
		"all went":                                 {NewestFirst, four, nil, NewestFirst},
		"none went":                                {OldestFirst, four, []string{"n1", "n2", "n3", "n4"}, OldestFirst},
		"the newest went, and new ones came since": {NewestFirst, four, []string{"n1", "n2", "n5", "n6"}, NewestFirst},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			var now []Node
			for _, name := range test.now {
				now = append(now, node(name))
			}
			if got := learn(test.expected, Sight(test.before), now); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
