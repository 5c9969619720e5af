// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// page is the file that -write writes.
var page = filepath.Join("..", "..", "docs", "ownership.md")

const preface = `# What happens to a portal cluster

No event in this table loses a portal cluster, and none makes a second one. The table is the output of a test (` + "`test/ownership`" + `), which plays
every row on real servers. *Asked* lists the requests that change something at the portal. *Clusters* is how many portal clusters exist
afterwards. Before, there was one.

| Event | Asked | Clusters | The user sees | Reasons |
| --- | --- | --- | --- | --- |
`

// line returns the row as a line of the table, without the reasons.
func (r row) line() string {
	asked := "nothing"
	if len(r.asked) > 0 {
		asked = "`" + strings.Join(r.asked, "`, `") + "`"
	}
	var sees []string
	for _, s := range r.sees {
		sees = append(sees, s.String())
	}
	return fmt.Sprintf("| %s | %s | %d | %s |", r.event, asked, r.clusters, strings.Join(sees, ", "))
}

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
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| ") {
			lines = append(lines, line)
		}
	}
	lines = lines[min(2, len(lines)):] // the head
	if len(lines) != len(rows()) {
		t.Errorf("%s has %d rows, and the test has %d: run this package with -write", page, len(lines), len(rows()))
	}
	for i, r := range rows() {
		if i < len(lines) && !strings.HasPrefix(lines[i], r.line()) {
			t.Errorf("line %d of %s is %s, want %s: run this package with -write", i+1, page, lines[i], r.line())
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
		reasons := strings.Join(seen, ", ")
		text.WriteString(r.line() + " " + reasons + " |\n")
	}
	return os.WriteFile(page, []byte(text.String()), 0o644)
}
