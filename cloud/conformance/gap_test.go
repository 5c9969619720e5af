// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGaps checks that every gap has an explanation, and that every shape has an example and an existing test. TestObservedShapes in
// package cloud checks that the list has every name that the client reports.
func TestGaps(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Gaps() {
		if s.Name == "" || s.Where == "" || len(s.Shapes) == 0 || !slices.Contains([]Effect{Works, NeedsPerson, Fails}, s.Effect) {
			t.Errorf("%q is incomplete: %+v", s.Name, s)
		}
		if seen[s.Name] {
			t.Errorf("%q exists twice", s.Name)
		}
		seen[s.Name] = true
		for _, shape := range s.Shapes {
			if seen[s.Name+"/"+shape.Name] || shape.Name == "" || shape.Example == "" {
				t.Errorf("%s: shape %q exists twice, or has no example", s.Name, shape.Name)
			}
			seen[s.Name+"/"+shape.Name] = true
			if folder, name, _ := strings.Cut(shape.Test, ": "); !hasTest(t, filepath.Join("..", "..", folder), name) {
				t.Errorf("%s: %s: test %s does not exist", s.Name, shape.Name, shape.Test)
			}
		}
	}
}

// hasTest reports whether a folder has a test function of that name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
