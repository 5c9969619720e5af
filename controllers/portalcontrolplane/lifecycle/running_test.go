// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

func TestCompareVersions(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"v1.36.3", "v1.36.3", 0},
		{"1.36.3", "v1.36.3", 0},        // the portal may leave the v out
		{"v1.36.3+k3s1", "v1.36.3", 0},  // build metadata says nothing about order
		{"v1.36.2", "v1.36.3", -1},      //
		{"v1.36.10", "v1.36.9", 1},      // numbers, not letters
		{"v1.37.0", "v1.36.99", 1},      //
		{"v2.0.0", "v1.99.99", 1},       //
		{"v1.36", "v1.36.0", 0},         // tolerated in what the portal lists
		{"v1.37.0-rc.1", "v1.37.0", -1}, // a candidate comes before
		{"v1.37.0-rc.1", "v1.37.0-rc.2", -1},
		{"latest", "v1.0.0", -1},          // no version is older than any
		{"latest", "newest", 0},           //
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
}

// TestEquivalent: status has the version in the spelling of spec, so users see no difference if there is none.
func TestEquivalent(t *testing.T) {
	tests := []struct{ wanted, running, want string }{
		{"v1.36.3", "v1.36.3", "v1.36.3"},
		{"v1.36.3", "1.36.3", "v1.36.3"},
		{"v1.36.3", "v1.36.3+portal.1", "v1.36.3"},
		{"v1.36.3+portal.2", "v1.36.3", "v1.36.3+portal.2"},
		{"v1.36.3+portal.2", "1.36.3+portal.1", "v1.36.3+portal.1"},
		{"v1.36.3", "v1.35.0", "v1.35.0"},
		{"v1.36.3", "1.35.0", "v1.35.0"},
	}
	for _, test := range tests {
		if got := Equivalent(test.wanted, test.running); got != test.want {
			t.Errorf("%s runs, %s is wanted: %s, want %s", test.running, test.wanted, got, test.want)
		}
	}
}

// TestReached: a version with a vendor's suffix is not older. Otherwise the cluster would be upgraded forever to the version that
// it runs.
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
		r := Running{Record: &operation.Record{Version: test.asked}, Server: test.running}
		if got := r.reached(); got != test.want {
			t.Errorf("asked for %q, %s runs: %s, want %s", test.asked, test.running, got, test.want)
		}
	}
}

// TestBehind checks when an upgrade is needed: the API server alone does not say that the whole cluster has reached a version.
func TestBehind(t *testing.T) {
	tests := map[string]struct {
		recorded, running, wanted string
		want                      int
	}{
		"reached, a vendor's suffix":        {"v1.36.3", "v1.36.3-portal.1", "v1.36.3", 0},
		"reached, build metadata":           {"v1.36.3", "1.36.3+portal", "v1.36.3", 0},
		"wanted":                            {"v1.35.6", "v1.35.6", "v1.36.3", -1},
		"only the API server runs it":       {"v1.35.6", "v1.36.3", "v1.36.3", -1},
		"the API server is older":           {"v1.36.3", "v1.35.6", "v1.36.3", -1},
		"the API server alone is newer":     {"v1.35.6", "v1.36.3", "v1.35.6", 1},
		"a candidate":                       {"v1.36.0-rc.1", "v1.36.0-rc.1", "v1.36.0", -1},
		"adopted, before the first reading": {"", "v1.36.3", "v1.36.3", -1},
		"another build":                     {"v1.36.3+p1", "v1.36.3+p1", "v1.36.3+p2", -1},
		"no build is recorded":              {"v1.36.3", "v1.36.3+p1", "v1.36.3+p2", -1},
		"no build is shown":                 {"v1.36.3+p1", "v1.36.3", "v1.36.3+p2", -1},
		"no build is known":                 {"v1.36.3", "v1.36.3", "v1.36.3+p2", 0},
		"only the API server runs a build":  {"v1.36.3+p1", "v1.36.3+p2", "v1.36.3+p2", -1},
		"it never shows what was installed": {"v1.36.3+p2", "v1.36.3+k3s1", "v1.36.3+p2", 0},
	}
	for title, test := range tests {
		r := Running{Record: &operation.Record{Version: test.recorded}, Server: test.running}
		if got := r.compareWith(test.wanted); got != test.want {
			t.Errorf("%s: %d, want %d", title, got, test.want)
		}
	}
}

// TestHidesSuffix checks when it is certain that no component reports the suffix of the wanted version.
func TestHidesSuffix(t *testing.T) {
	nodes := func(versions ...string) (all []corev1.Node) {
		for _, v := range versions {
			n := corev1.Node{}
			n.Status.NodeInfo.KubeletVersion = v
			all = append(all, n)
		}
		return all
	}
	for title, test := range map[string]struct {
		wanted, server string
		nodes          []corev1.Node
		want           bool
	}{
		"all report the release":          {"v1.34.9+vendor.2", "v1.34.9", nodes("v1.34.9", "v1.34.9"), true},
		"also without build metadata":     {"v1.34.9-vendor.2", "1.34.9", nodes("v1.34.9", "v1.34.9"), true},
		"no suffix is wanted":             {"v1.34.9", "v1.34.9", nodes("v1.34.9", "v1.34.9"), false},
		"a candidate":                     {"v1.35.0-rc.1", "v1.35.0-rc.1", nodes("v1.35.0-rc.1", "v1.35.0-rc.1"), false},
		"a kubelet reports it":            {"v1.34.9+vendor.2", "v1.34.9", nodes("v1.34.9", "v1.34.9+vendor.2"), false},
		"the API server reports it":       {"v1.34.9+vendor.2", "v1.34.9+vendor.2", nodes("v1.34.9", "v1.34.9"), false},
		"a worker has not joined":         {"v1.34.9+vendor.2", "v1.34.9", nodes("v1.34.9"), false},
		"a worker has not reported":       {"v1.34.9+vendor.2", "v1.34.9", nodes("v1.34.9", ""), false},
		"a worker still has the last one": {"v1.34.9+vendor.2", "v1.34.9", nodes("v1.34.9", "v1.33.4"), false},
	} {
		r := Running{Record: &operation.Record{Version: test.wanted, Size: 2}, Server: test.server, Nodes: test.nodes}
		if got := r.hidesSuffix(test.wanted); got != test.want {
			t.Errorf("%s: %t", title, got)
		}
	}
}

// TestReach checks which nodes count when the whole cluster is to run a version.
func TestReach(t *testing.T) {
	node := func(version string, ready corev1.ConditionStatus) corev1.Node {
		n := corev1.Node{}
		n.Status.NodeInfo.KubeletVersion = version
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	upgraded, suffixed, old := node("v1.36.3", corev1.ConditionTrue), node("v1.36.3-portal.1", corev1.ConditionTrue), node("v1.35.6", corev1.ConditionTrue)
	booting, gone := node("v1.36.3", corev1.ConditionFalse), node("v1.35.6", corev1.ConditionUnknown)
	tests := map[string]struct {
		running   string
		size      int
		nodes     []corev1.Node
		all, some bool
	}{
		"all":                                    {"v1.36.3", 2, []corev1.Node{upgraded, upgraded}, true, true},
		"with a vendor's suffix":                 {"v1.36.3-portal.1", 2, []corev1.Node{suffixed, suffixed}, true, true},
		"no workers":                             {"v1.36.3", 0, nil, true, true},
		"one worker is old":                      {"v1.36.3", 2, []corev1.Node{upgraded, old}, false, true},
		"one worker has yet to be Ready":         {"v1.36.3", 2, []corev1.Node{upgraded, booting}, true, true},
		"Node objects of replaced machines stay": {"v1.36.3", 2, []corev1.Node{upgraded, upgraded, gone}, true, true},
		"they stay, and the size is not known":   {"v1.36.3", operation.SizeUnknown, []corev1.Node{upgraded, upgraded, gone}, false, true},
		"more than the size, and one is old":     {"v1.36.3", 2, []corev1.Node{upgraded, upgraded, old}, false, true},
		"only the API server":                    {"v1.36.3", 1, []corev1.Node{old}, false, true},
		"no sign of it":                          {"v1.35.6", 1, []corev1.Node{old}, false, false},
	}
	for title, test := range tests {
		r := Running{Record: &operation.Record{Version: "v1.35.6", Size: test.size}, Server: test.running, Nodes: test.nodes}
		if some, all := r.runs("v1.36.3"); some != test.some || all != test.all {
			t.Errorf("%s: some %v, all %v", title, some, all)
		}
	}
	candidate := Running{Record: &operation.Record{Version: "v1.36.0-rc.1", Size: 1}, Server: "v1.36.0-rc.1", Nodes: []corev1.Node{node("v1.36.0-rc.1", corev1.ConditionTrue)}}
	if some, all := candidate.runs("v1.36.0"); some || all {
		t.Error("a candidate counts as the release")
	}
}
