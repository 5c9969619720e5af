// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reported matches the gaps and shapes that the client and portalctl doctor report: constants, and literals.
var reported = regexp.MustCompile(`(?m)^\t([a-z]\w+) += "(.+)"$|d\.Gaps\["(.+)"\] = "(.+)"`)

// TestGaps checks that every gap has an explanation, that every shape has an example and an existing test, and that the list has every name
// that the client and portalctl doctor report.
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
	found, gap := 0, ""
	for _, match := range reported.FindAllStringSubmatch(source(t, "../shape.go")+source(t, "../../cmd/portalctl/doctor.go"), -1) {
		shape := match[2]
		switch {
		case match[3] != "":
			gap, shape = match[3], match[4]
		case strings.HasPrefix(match[1], "gap"):
			gap = match[2]
			continue
		}
		if found++; !seen[gap+"/"+shape] {
			t.Errorf("%q is reported as a shape of %q, which the list does not have", shape, gap)
		}
	}
	if found < 20 {
		t.Errorf("only %d reported shapes were found", found)
	}
}

func source(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// hasTest reports whether a folder has a test function of that name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.Contains(source(t, file), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}
