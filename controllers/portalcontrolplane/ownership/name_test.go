// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"regexp"
	"strings"
	"testing"
)

// portalName is what spec.clusterName may be.
var portalName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func TestGenerateName(t *testing.T) {
	for _, base := range []string{"prod.eu", strings.Repeat("a", 56) + "-b", strings.Repeat("a", 56) + ".b"} { // portal names must not contain dots
		if name := generateName(base); len(name) > 63 || !portalName.MatchString(name) {
			t.Errorf("%q", name)
		}
	}
	for _, base := range []string{"a", "prod", "prod-eu-1", strings.Repeat("a", 57), strings.Repeat("a", 58), strings.Repeat("a", 253)} {
		name := generateName(base)
		if len(name) > 63 || !portalName.MatchString(name) {
			t.Errorf("%d characters make %q", len(base), name)
		}
		if short := base[:min(len(base), 57)]; !strings.HasPrefix(name, short+"-") {
			t.Errorf("%q is not found under %q", name, base)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[generateName("prod")] = true
	}
	if len(seen) < 990 {
		t.Errorf("1000 names, %d different", len(seen))
	}
}

// TestIsGenerated: a name that a person chose may be another user's cluster, even if it looks like one of ours.
func TestIsGenerated(t *testing.T) {
	for _, base := range []string{"a", "prod", "prod.eu", strings.Repeat("a", 253)} {
		for range 100 {
			if name := generateName(base); !isGenerated(base, name) {
				t.Errorf("%q of %q is not taken for one of ours", name, base)
			}
		}
	}
	for _, name := range []string{"", "prod", "prod-", "prod-west1", "prod-alpha", "prod-bcdfgh", "other-bcdfg", "prod-bcdf"} {
		if isGenerated("prod", name) {
			t.Errorf("%q is taken for one of ours", name)
		}
	}
}
