// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

func TestCompareVersions(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"v1.36.3", "v1.36.3", 0},
		{"1.36.3", "v1.36.3", 0},        // the portal may leave the v out
		{"v1.36.3+k3s1", "v1.36.3", 0},  // build metadata says nothing about order
		{"1.36.3+a", "1.36.3+b", 0},     //
		{"v1.36.2", "v1.36.3", -1},      //
		{"v1.36.10", "v1.36.9", 1},      // numbers, not letters
		{"v1.37.0", "v1.36.99", 1},      //
		{"v2.0.0", "v1.99.99", 1},       //
		{"v1.36", "v1.36.0", 0},         // tolerated in what the portal lists
		{"v1.37.0-rc.1", "v1.37.0", -1}, // a candidate comes before
		{"v1.37.0-rc.1", "v1.37.0-rc.2", -1},
		{"latest", "v1.0.0", -1},          // no version is older than any
		{"v1.0.0", "latest", 1},           //
		{"latest", "newest", 0},           //
		{"", "", 0},                       //
		{"", "v1.0.0", -1},                //
		{"v1.36.3-rc.1+b", "1.36.2", 1},   //
		{" v1.36.3", "v1.36.3", 0},        // tolerated
		{"v1.036.3", "v1.36.3", 0},        // tolerated
		{"v1.36.3.1", "v1.36.3", -1},      // four numbers are no version
		{"99999999999999999999", "1", -1}, // nor is what does not fit
	}
	for _, test := range tests {
		if got := compareVersions(test.a, test.b); got != test.want {
			t.Errorf("%q to %q: %d, want %d", test.a, test.b, got, test.want)
		}
		if got := compareVersions(test.b, test.a); got != -test.want {
			t.Errorf("%q to %q: %d, want %d", test.b, test.a, got, -test.want)
		}
	}
	versions := []string{"v1.36.10", "v1.9.0", "v1.36.9"}
	slices.SortFunc(versions, compareVersions)
	if !slices.Equal(versions, []string{"v1.9.0", "v1.36.9", "v1.36.10"}) {
		t.Errorf("sorted: %v", versions)
	}
}

// TestEquivalent: status tells the version as spec writes it, so that nobody sees a difference that there is not.
func TestEquivalent(t *testing.T) {
	tests := []struct{ wanted, running, want string }{
		{"v1.36.3", "v1.36.3", "v1.36.3"},
		{"v1.36.3", "1.36.3", "v1.36.3"},
		{"v1.36.3", "v1.36.3+portal.1", "v1.36.3"},
		{"v1.36.3+portal.2", "v1.36.3", "v1.36.3+portal.2"},
		{"v1.36.3", "v1.35.0", "v1.35.0"},
		{"v1.36.3", "1.35.0", "v1.35.0"},
	}
	for _, test := range tests {
		if got := equivalent(test.wanted, test.running); got != test.want {
			t.Errorf("%s runs, %s is wanted: %s, want %s", test.running, test.wanted, got, test.want)
		}
	}
}

// TestReached: a vendor's suffix is no older version, or the cluster would be upgraded to what it runs, for ever.
func TestReached(t *testing.T) {
	tests := []struct{ asked, running, want string }{
		{"v1.36.3", "v1.36.3-portal.1", "v1.36.3"},
		{"v1.36.3", "v1.36.3+portal.1", "v1.36.3"},
		{"v1.36.3", "v1.36.3", "v1.36.3"},
		{"v1.36.3", "v1.37.0-portal.1", "v1.37.0-portal.1"},
		{"v1.37.0", "v1.36.3", "v1.36.3"},
		{"", "v1.36.3", "v1.36.3"},
	}
	for _, test := range tests {
		s := &scope{running: test.running, record: &operation.Record{Version: test.asked}}
		if got := s.reached(); got != test.want {
			t.Errorf("asked for %q, %s runs: %s, want %s", test.asked, test.running, got, test.want)
		}
	}
}
