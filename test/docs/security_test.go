// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testName matches the form in which a page names a test: the package, relative to the root, and the function.
var testName = regexp.MustCompile(`^([\w./-]+): ((?:Test|Fuzz)\w+)$`)

// TestControlsHaveTests checks that every control in controls.md names a test, or links to the page that says why it has none.
// TestPathsOfContributors checks that the tests exist.
func TestControlsHaveTests(t *testing.T) {
	_, items, _ := strings.Cut(read(t, filepath.Join(development, "controls.md")).text, "\n- ")
	controls := strings.Split(items, "\n- ")
	for _, control := range controls {
		tests := 0
		for _, span := range codeSpan.FindAllStringSubmatch(control, -1) {
			if testName.MatchString(span[1]) {
				tests++
			} else if strings.Contains(span[1], "Test") {
				t.Errorf("%q names a test: write it as package: TestName", span[1])
			}
		}
		if tests == 0 && !strings.Contains(control, "[Not tried yet](") {
			t.Errorf("this control names no test: %s", control)
		}
	}
	if len(controls) < 30 {
		t.Errorf("only %d controls were found", len(controls))
	}
}

// declares reports whether a package has a test function.
func declares(t *testing.T, folder, function string) bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		return strings.Contains(source(t, strings.TrimPrefix(path, root+"/")), "\nfunc "+function+"(")
	})
}
