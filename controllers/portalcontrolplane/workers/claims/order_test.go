// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// TestLearn checks what scale-downs show about the portal. In each, the nodes on the left existed before, and those on the right afterwards. The
// portal made n3, n4 and n5 of a batch in this order, and they may join in another one. A tie or a guess is no knowledge.
func TestLearn(t *testing.T) {
	const batch = "n1:old n2:old n3:made=2:at=3 n4:made:at=4 n5:made=1:at=5"
	for title, test := range map[string]struct {
		removals []string
		want     string
	}{
		"the oldest went":                  {[]string{"n1 n2 n3 n4 > n3 n4"}, "Oldest"},
		"one of many is enough":            {[]string{"n1 n2 n3 n4 > n1 n2 n3"}, "Newest"},
		"once the oldest, then the newest": {[]string{"n1 n2 n3 n4 > n2 n3 n4", "n2 n3 n4 > n2 n3"}, "Random"},
		"some in between":                  {[]string{"n1 n2 n3 n4 > n1 n2 n4"}, "Random"},
		"of one batch either may go":       {[]string{"n1 n2 n3 n4 > n2 n3 n4", "n1:old n2:old n3 n4 > n1 n3 n4"}, "Oldest Name=Newest"},
		"all went":                         {[]string{"n1 n2 n3 n4 > "}, ""},

		"the last in the list went, which was not the youngest": {[]string{batch + " > n1 n2 n3 n4"}, "Newest Position=Newest Age=Random Name=Newest"},
		"then the youngest, which was the first": {
			[]string{batch + " > n1 n2 n3 n4", "n1:old n2:old n3:made=2:at=3 n4:made:at=4 > n1 n2 n4"}, "Newest Position=Random Age=Random Name=Random",
		},
		"the whole batch went": {[]string{batch + " > n1 n2"}, "Newest"},
		"of one second, and not in any list: the names show it, by number": {[]string{"n1:old n3:made n4:made n10:made > n1 n3 n4"}, "Newest Name=Newest"},
		"the times of two operations overlap, so what they made is one batch": {
			[]string{"n1:made n2:made=5:by=b n3:made=9 > n1 n3"}, "Age=Random Name=Random",
		},
	} {
		t.Run(title, func(t *testing.T) {
			var e removal.Evidence
			for _, step := range test.removals {
				before, now, _ := strings.Cut(step, ">")
				e = e.Learn(Snapshot(see(before).Nodes), Snapshot(see(now).Nodes))
			}
			got := []string{string(e.Order)}
			for _, key := range []removal.Key{removal.ByPosition, removal.ByAge, removal.ByName} {
				if order := e.Within[key]; order != "" {
					got = append(got, string(key)+"="+string(order))
				}
			}
			if diff := cmp.Diff(test.want, strings.TrimSpace(strings.Join(got, " "))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
