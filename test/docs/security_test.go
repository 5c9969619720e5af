// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testName matches the form in which a page names a test: the package, relative to the root, and the function.
var testName = regexp.MustCompile(`^([\w./-]+): ((?:Test|Fuzz)\w+)$`)

// TestSecurityTests checks that every test that docs/security.md names exists.
func TestSecurityTests(t *testing.T) {
	count := 0
	for span := range strings.Lines(read(t, filepath.Join("docs", "security.md")).code) {
		span = strings.TrimSpace(span)
		named := testName.FindStringSubmatch(span)
		if named == nil {
			if strings.Contains(span, "Test") {
				t.Errorf("%q names a test: write it as package: TestName", span)
			}
			continue
		}
		count++
		if !declares(t, named[1], named[2]) {
			t.Errorf("package %s has no test %s", named[1], named[2])
		}
	}
	if count < 30 {
		t.Errorf("only %d tests were found", count)
	}
}

// TestControlsHaveTests checks that every control in docs/security.md names a test, or links to the page that says why it has none.
func TestControlsHaveTests(t *testing.T) {
	_, items, _ := strings.Cut(read(t, filepath.Join("docs", "security.md")).section(t, "Controls"), "\n- ")
	controls := strings.Split(items, "\n- ")
	for _, control := range controls {
		if !strings.Contains(control, ": Test") && !strings.Contains(control, ": Fuzz") && !strings.Contains(control, "[Not tried yet](") {
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
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+function+"(") {
			return true
		}
	}
	return false
}
