// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repositoryPath matches a code span that names a file or folder in one of the repository's folders, with an optional trailing slash.
var repositoryPath = regexp.MustCompile(`^(?:\./)?((?:api|cloud|cmd|config|controllers|docs|hack|templates|test|version)(?:/[\w.*-]+)+)/?$`)

// TestPathsOfContributors checks that the paths and tests exist that CONTRIBUTING.md and the pages for contributors name.
func TestPathsOfContributors(t *testing.T) {
	paths, tests := 0, 0
	for _, p := range pages(t) {
		if p.path != "CONTRIBUTING.md" && filepath.Dir(p.path) != filepath.FromSlash(development) {
			continue
		}
		for span := range strings.Lines(p.code) {
			span = strings.TrimSpace(span)
			if named := testName.FindStringSubmatch(span); named != nil {
				tests++
				if !declares(t, named[1], named[2]) {
					t.Errorf("%s: package %s has no test %s", p.path, named[1], named[2])
				}
			}
			if named := repositoryPath.FindStringSubmatch(span); named != nil {
				paths++
				if !exists(t, named[1]) {
					t.Errorf("%s: %s does not exist", p.path, named[1])
				}
			}
		}
	}
	if paths < 50 || tests < 10 {
		t.Errorf("only %d paths and %d tests were found", paths, tests)
	}
}

// exists reports whether the path exists in the repository. A path with * needs at least one match.
func exists(t *testing.T, path string) bool {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(strings.TrimSuffix(path, "/..."))))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(matches, func(match string) bool { _, err := os.Stat(match); return err == nil })
}
