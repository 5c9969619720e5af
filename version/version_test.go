// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestGet: what the linker was given wins over what Go recorded, and nothing is left empty.
func TestGet(t *testing.T) {
	recorded := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "cafe"}
	tests := map[string]struct {
		version, commit string
		recorded        *debug.BuildInfo
		want            string
	}{
		"made by make":              {"v1.2.3", "beef", recorded("(devel)", revision), "v1.2.3 (commit beef, "},
		"installed by go":           {"", "", recorded("v1.2.3"), "v1.2.3 (commit unknown, "},
		"built by go in a checkout": {"", "", recorded("(devel)", revision), "(devel) (commit cafe, "},
		"with changes": {"", "", recorded("(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
			"(devel) (commit cafe-dirty, "},
		"nothing recorded": {"", "", nil, "unknown (commit unknown, "},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			want := test.want + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
			if got := get(test.version, test.commit, test.recorded).String(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}
