// SPDX-License-Identifier: Apache-2.0

// Package docs compares the documentation with the code. The tests check that every condition and reason is explained, that every named
// make target, path and test exists, and that no link is broken.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// development is the folder of the pages for contributors.
const development = "docs/development"

// page is one Markdown file, with its code separated from its text.
type page struct {
	path string // relative to the root
	text string // code blanked
	code string // the text of code blocks and spans, a line or span per line
}

func pages(t *testing.T) []page {
	t.Helper()
	var paths []string
	for _, folder := range []string{"docs", development} {
		found, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	paths = append(paths, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "SECURITY.md"))
	if len(paths) < 5 {
		t.Fatalf("only %v: is this the right directory?", paths)
	}
	var all []page
	for _, path := range paths {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, read(t, name))
	}
	return all
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

func read(t *testing.T, path string) page {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	p := page{path: path}
	var text, code strings.Builder
	fenced := false
	for line := range strings.Lines(string(raw)) {
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
	p.text, p.code = text.String(), code.String()
	return p
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

// anchors returns the anchors of a page's headings.
func (p page) anchors() map[string]bool {
	known := map[string]bool{}
	for line := range strings.Lines(p.text) {
		if title := strings.TrimLeft(line, "#"); title != line {
			known[anchor(title)] = true
		}
	}
	return known
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 _-]`)

func anchor(title string) string {
	title = notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
	return strings.ReplaceAll(title, " ", "-")
}
