// SPDX-License-Identifier: Apache-2.0

// Package docs compares the documentation with the code. The tests check that every condition and reason is explained, that every named
// make target, path and test exists, and that no link is broken.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	root = "../.."
	// development is the folder of the pages for contributors.
	development = "docs/development"
	reference   = "docs/reference.md"
)

// page is one Markdown file, with its code separated from its text.
type page struct {
	path string // relative to the root
	text string // without code blocks
	code string // the text of code blocks and spans, a line or span per line
}

func pages(t *testing.T) (all []page) {
	t.Helper()
	for _, path := range files(t, "docs/*.md", development+"/*.md", "README.md", "CONTRIBUTING.md", "SECURITY.md") {
		all = append(all, read(t, path))
	}
	return all
}

// files returns the files that match the patterns, relative to the root and without tests. Each pattern has to match one.
func files(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found := glob(t, pattern)
		if len(found) == 0 {
			t.Fatalf("no file matches %s", pattern)
		}
		for _, path := range found {
			if !strings.HasSuffix(path, "_test.go") {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// glob returns the paths that match the pattern and exist, relative to the root.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	if err != nil {
		t.Fatal(err)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { _, err := os.Stat(path); return err != nil })
	for i := range paths {
		paths[i] = strings.TrimPrefix(paths[i], root+"/")
	}
	return paths
}

// source returns the content of a file.
func source(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

func read(t *testing.T, path string) page {
	t.Helper()
	var text, code strings.Builder
	fenced := false
	for line := range strings.Lines(source(t, path)) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			fenced = !fenced
		case fenced:
			code.WriteString(line)
		default:
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				code.WriteString(span[1] + "\n")
			}
			text.WriteString(line)
		}
	}
	if fenced {
		t.Errorf("%s: a code block is not closed", path)
	}
	return page{path, text.String(), code.String()}
}

// section returns the text under a second-level heading, up to the next one.
func (p page) section(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(p.text, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", p.path, heading)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 _-]`)

// has reports whether a heading of the page has the anchor.
func (p page) has(anchor string) bool {
	for line := range strings.Lines(p.text) {
		if title := strings.TrimLeft(line, "#"); title != line {
			name := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			if strings.ReplaceAll(name, " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

// same fails the test for each difference between a page and the code.
func same[T any](t *testing.T, what string, code, page T) {
	t.Helper()
	if diff := cmp.Diff(code, page); diff != "" {
		t.Errorf("%s (-code +page):\n%s", what, diff)
	}
}
