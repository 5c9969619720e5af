// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAnnounce checks that the demonstration announces every step before it starts, with the duration of the last run if one is known.
func TestAnnounce(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	announced := func() string {
		out := &strings.Builder{}
		d := &demo{out: out, from: "v1", to: "v2", took: readTook(root)}
		d.announce()
		for _, step := range d.steps() {
			if !strings.Contains(out.String(), "  "+step.name+"\n") {
				t.Errorf("%q is not announced:\n%s", step.name, out)
			}
		}
		return out.String()
	}
	if first := announced(); !strings.Contains(first, " ?  "+startStep) {
		t.Errorf("the first time:\n%s", first)
	}
	readTook(root).record(startStep, time.Now().Add(-42*time.Second))
	if again := announced(); !strings.Contains(again, " 42 s  "+startStep) || !strings.Contains(again, "?  Delete it") {
		t.Errorf("the second time:\n%s", again)
	}
	if err := os.WriteFile(filepath.Join(root, "bin", ".demo-took.json"), []byte(`{"seconds":null}`), 0o600); err != nil {
		t.Fatal(err)
	}
	readTook(root).record("any", time.Now()) // must not fail for an unreadable file
}
