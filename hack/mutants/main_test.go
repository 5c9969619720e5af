// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMutantsFit checks that every mutant still replaces what it says, and that its tests exist. A change that moves one of them has to move
// the mutant too.
func TestMutantsFit(t *testing.T) {
	mutants, err := readMutants(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err := m.changed("../.."); err != nil {
			t.Error(err)
		}
		for _, test := range m.tests {
			top, _, _ := strings.Cut(test.pattern, "/")
			for name := range strings.SplitSeq(top, "|") {
				if !declares(t, filepath.Join("../..", test.folder), name) {
					t.Errorf("mutant %s: %s has no %s", m.name, test.folder, name)
				}
			}
		}
	}
}

func declares(t *testing.T, folder, name string) bool {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^func ` + name + `\(`).Match(raw) {
			return true
		}
	}
	return false
}
