// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)|src(?:set)?="([^"]+)"`)

// TestLinks checks that each link and picture inside the repository leads to an existing file and heading.
func TestLinks(t *testing.T) {
	count := 0
	for _, p := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(p.text, -1) {
			target := found[1] + found[2]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			count++
			file, heading, _ := strings.Cut(target, "#")
			to := p
			if file != "" {
				path := filepath.Join(filepath.Dir(p.path), file)
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s: %s leads nowhere", p.path, target)
					continue
				}
				if heading == "" || !strings.HasSuffix(path, ".md") {
					continue
				}
				to = read(t, path)
			}
			if !to.anchors()[heading] {
				t.Errorf("%s: %s names no heading", p.path, target)
			}
		}
	}
	if count < 10 {
		t.Errorf("only %d links were found", count)
	}
}

var (
	makeCall   = regexp.MustCompile(`(?m)(?:^|[$;&|] *)make ([a-z][a-z0-9-]*)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// TestMakeTargets checks that each make target that the documentation names exists.
func TestMakeTargets(t *testing.T) {
	known := map[string]bool{}
	for _, found := range makeTarget.FindAllStringSubmatch(source(t, "Makefile"), -1) {
		known[found[1]] = true
	}
	count := 0
	for _, p := range pages(t) {
		for _, found := range makeCall.FindAllStringSubmatch(p.code, -1) {
			count++
			if !known[found[1]] {
				t.Errorf("%s: the Makefile has no target %q", p.path, found[1])
			}
		}
	}
	if count < 5 {
		t.Errorf("only %d uses of make were found", count)
	}
}

// TestEveryPageIsFound checks that README.md links to every page in docs, and docs/development/README.md to every page in its folder.
func TestEveryPageIsFound(t *testing.T) {
	for _, p := range pages(t) {
		folder, name := filepath.Split(p.path)
		index, target := "README.md", filepath.ToSlash(p.path)
		switch {
		case folder == "":
			continue
		case filepath.Clean(folder) == filepath.FromSlash(development) && name != "README.md":
			index, target = filepath.Join(folder, "README.md"), name
		}
		if !strings.Contains(read(t, index).text, "("+target) {
			t.Errorf("%s has no link to %s", index, p.path)
		}
	}
}
