// SPDX-License-Identifier: Apache-2.0

package arrow

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestNolint checks that comments only silence linters that run: nolintlint does not report a comment for a linter that is not enabled, and
// golangci-lint does not read modules in other folders.
func TestNolint(t *testing.T) {
	var config struct{ Linters struct{ Enable []string } }
	if err := yaml.Unmarshal(content(t, ".golangci.yml"), &config); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", root, "ls-files", "*.go").Output()
	if err != nil {
		t.Skip("this is no clone of the repository")
	}
	silenced := regexp.MustCompile(`//` + `nolint:([a-z,]+)`)
	folders, found := moduleFolders(t), 0
	for _, file := range strings.Fields(string(out)) {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue // deleted, and not committed yet
		}
		for _, comment := range silenced.FindAllStringSubmatch(string(source), -1) {
			found++
			apart := slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(file, folder+"/") })
			for linter := range strings.SplitSeq(comment[1], ",") {
				if apart || !slices.Contains(config.Linters.Enable, linter) {
					t.Errorf("%s silences %s, which does not run there", file, linter)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no comment was found")
	}
}
