// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	action = regexp.MustCompile(`(?m)^.*\buses: *(\S+)(.*)$`)
	pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	named  = regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`)
)

// TestWorkflows checks what actionlint does not: actions are pinned by commit hash, with the version in a comment, and a workflow has only
// the rights that it names.
func TestWorkflows(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(paths) < 3 {
		t.Fatal(err, paths)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		uses := action.FindAllStringSubmatch(string(raw), -1)
		for _, use := range uses {
			if !pinned.MatchString(use[1]) || !named.MatchString(use[2]) {
				t.Errorf("%s: %s%s: want the hash of a commit, and its version in a comment", path, use[1], use[2])
			}
		}
		if len(uses) == 0 {
			t.Errorf("%s: no action was found", path)
		}
		var workflow struct{ Permissions map[string]string }
		if err := yaml.Unmarshal(raw, &workflow); err != nil {
			t.Fatal(path, err)
		}
		if workflow.Permissions == nil {
			t.Errorf("%s: has no permissions, so it gets the repository's default permissions", path)
		}
		for right, access := range workflow.Permissions {
			if access == "write" {
				t.Errorf("%s: all jobs may write %s: give that right to the job that needs it", path, right)
			}
		}
	}
}
