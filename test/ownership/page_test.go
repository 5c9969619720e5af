// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is the file that -write writes.
var page = filepath.Join("..", "..", "docs", "development", "ownership.md")

const preface = `# What happens to a portal cluster

A portal cluster ends only if a person, or a tool such as Argo CD or Flux, deletes it or its objects. No event on this page makes a
second portal cluster.

` + "`test/ownership`" + ` plays the rows of the first table on real servers, and writes it. Unless a row says otherwise, the provider asks the portal for no
change, and the portal cluster remains. *Healthy* means that all conditions that the row checks are good, such as ` + "`Available=True`" + ` of the
Cluster or ` + "`Deleting=False`" + ` of the PortalControlPlane. A condition without a status may be True or False. Its reason is then an example.

| Event | What you see |
|---|---|
`

// worldPart begins the part of the page that test/world writes and checks.
const worldPart = "## In virtual time"

// line returns the row as a line of the table. reasons are those of the row's sights, or nil.
func (r row) line(reasons []string) string {
	var sees []string
	if len(r.asked) > 0 {
		sees = append(sees, "asked: `"+strings.Join(r.asked, "`, `")+"`")
	}
	if r.clusters == 0 {
		sees = append(sees, "no portal cluster is left")
	}
	if len(r.sees) > 0 && !slices.ContainsFunc(r.sees, func(s sight) bool { return !s.isGood() }) {
		return fmt.Sprintf("| %s | %s |", r.event, strings.Join(append(sees, "healthy"), ", "))
	}
	for i, s := range r.sees {
		text := s.String()
		if i < len(reasons) && reasons[i] != "" {
			text += " (`" + reasons[i] + "`)"
		}
		sees = append(sees, text)
	}
	return fmt.Sprintf("| %s | %s |", r.event, strings.Join(sees, ", "))
}

// reason matches the reason of a sight in a line.
var reason = regexp.MustCompile(" \\(`[A-Za-z]+`\\)")

// TestPage compares the page with the rows. It does not compare the reasons of conditions, which only TestOwnership knows.
func TestPage(t *testing.T) {
	if *write {
		return // this run writes the page
	}
	text, err := os.ReadFile(page)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s does not exist: run this package with -write when all rows pass", page)
	}
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	ours, _, _ := strings.Cut(string(text), worldPart)
	for line := range strings.Lines(ours) {
		if strings.HasPrefix(line, "| ") {
			lines = append(lines, line)
		}
	}
	lines = lines[min(1, len(lines)):] // the head
	if len(lines) != len(rows()) {
		t.Errorf("%s has %d rows, and the test has %d: run this package with -write", page, len(lines), len(rows()))
	}
	for i, r := range rows() {
		if r.before != "" && !slices.ContainsFunc(rows(), func(of row) bool { return of.event == r.before && of.before == "" }) {
			t.Errorf("row %q runs before %q, but no row with a Cluster of its own has this event", r.event, r.before)
		}
		if i < len(lines) && reason.ReplaceAllString(strings.TrimSpace(lines[i]), "") != r.line(nil) {
			t.Errorf("line %d of %s is %s, want %s: run this package with -write", i+1, page, lines[i], r.line(nil))
		}
	}
}

// writePage writes the table with the reasons that the rows have noted.
func writePage() error {
	var text strings.Builder
	text.WriteString(preface)
	for _, r := range rows() {
		seen, found := results[r.event]
		if !found {
			return fmt.Errorf("row %q did not run: run all rows", r.event)
		}
		text.WriteString(r.line(seen) + "\n")
	}
	before, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if _, theirs, found := strings.Cut(string(before), worldPart); found {
		text.WriteString("\n" + worldPart + theirs)
	}
	return os.WriteFile(page, []byte(text.String()), 0o644)
}
