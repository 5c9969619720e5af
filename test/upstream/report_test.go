// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"

	"github.com/capportal/cluster-api-provider-portal/test/upstream/patches"
)

// page is written when UPSTREAM_WRITE is set and all specs that run have passed.
var page = filepath.Join(root, "docs", "development", "upstream.md")

// mark begins the part of the page that a run writes: the specs that run, then the others.
const (
	mark   = "| Spec | Here | Seconds | |\n| --- | --- | --- | --- |\n"
	others = "\n| Does not run | Specs |\n| --- | --- |\n"
)

// notRun returns the rows of the page for specs that do not run: one for each reason, in the order of the catalogue.
func notRun() []string {
	var reasons, lines []string
	specs := map[string][]string{}
	for _, r := range catalogue {
		if r.runs {
			continue
		}
		if len(specs[r.why]) == 0 {
			reasons = append(reasons, r.why)
		}
		specs[r.why] = append(specs[r.why], r.text)
	}
	for _, why := range reasons {
		lines = append(lines, fmt.Sprintf("| %s | %s |\n", why, strings.Join(specs[why], "; ")))
	}
	return lines
}

// line is the spec's row of the page, without the duration if it did not run.
func (r row) line(result string, took time.Duration) string {
	seconds := ""
	if took > 0 {
		seconds = fmt.Sprintf("%.0f", took.Seconds())
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", r.text, result, seconds, r.why)
}

// kind says how the spec runs.
func (r row) kind() string {
	switch {
	case !r.runs && strings.HasPrefix(r.why, "Not yet"):
		return "not yet"
	case !r.runs:
		return "does not apply"
	case len(r.patches) > 0:
		return "runs, patched"
	}
	return "runs"
}

var _ = ReportAfterSuite("a table of all specs", func(report Report) {
	var table, rows strings.Builder
	complete := report.SuiteSucceeded
	fmt.Fprintf(&table, "\n%-125s %-15s %-8s %s\n", "SPEC", "HERE", "RESULT", "SECONDS")
	for _, r := range catalogue {
		result, took := "", time.Duration(0)
		if i := slices.IndexFunc(report.SpecReports, func(s types.SpecReport) bool {
			return s.LeafNodeType == types.NodeTypeIt && s.ContainerHierarchyTexts[0] == r.text
		}); i >= 0 {
			spec := report.SpecReports[i]
			result, took = spec.State.String(), spec.RunTime
			complete = complete && spec.State == types.SpecStatePassed
			if spec.State == types.SpecStateSkipped {
				took = 0
			}
		}
		seconds := ""
		if took > 0 {
			seconds = fmt.Sprintf("%.0f", took.Seconds())
		}
		fmt.Fprintf(&table, "%-125s %-15s %-8s %s\n", r.text, r.kind(), result, seconds)
		if r.runs {
			rows.WriteString(r.line(r.kind(), took))
		}
	}
	fmt.Print(table.String())
	if err := os.WriteFile(filepath.Join(artifacts(), "table.txt"), []byte(table.String()), 0o600); err != nil {
		Fail(err.Error())
	}
	if os.Getenv("UPSTREAM_WRITE") == "" {
		return
	}
	if !complete {
		fmt.Println("docs/development/upstream.md is not written: not all specs that run have run and passed")
		return
	}
	if err := writePage(rows.String() + others + strings.Join(notRun(), "")); err != nil {
		Fail(err.Error())
	}
})

// writePage replaces the tables, which end the page.
func writePage(tables string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, _, found := strings.Cut(string(text), mark)
	if !found {
		return fmt.Errorf("%s has no table", page)
	}
	return os.WriteFile(page, []byte(before+mark+tables), 0o600)
}

// TestCatalogue compares the catalogue with the specs of upstream's module, and the page with the catalogue.
func TestCatalogue(t *testing.T) {
	t.Chdir(os.Getenv("UPSTREAM_SOURCE"))
	files, err := filepath.Glob(filepath.Join(os.Getenv("UPSTREAM_MODULE"), "e2e", "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("UPSTREAM_MODULE must name the folder of upstream's module (make test-upstream sets it): %v", err)
	}
	writing := os.Getenv("UPSTREAM_WRITE") != ""
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var theirs []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^var _ = Describe\("([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			theirs = append(theirs, match[1])
			if !slices.ContainsFunc(catalogue, func(r row) bool { return r.text == match[1] }) {
				t.Errorf("the catalogue lacks %q of %s", match[1], filepath.Base(file))
			}
		}
	}
	for _, p := range patches.All {
		if !slices.ContainsFunc(catalogue, func(r row) bool { return slices.Contains(r.patches, p.File) }) {
			t.Errorf("no spec needs the patch of %s", p.File)
		}
	}
	for _, r := range catalogue {
		if !slices.Contains(theirs, r.text) {
			t.Errorf("upstream has no spec %q any more", r.text)
		}
		if writing || !r.runs {
			continue
		}
		if !strings.Contains(string(written), "| "+r.text+" | "+r.kind()+" |") || !strings.Contains(string(written), r.why) {
			t.Errorf("%s does not say that %q %s: run make test-upstream with UPSTREAM_WRITE=1", page, r.text, r.kind())
		}
	}
	for _, line := range notRun() {
		if !writing && !strings.Contains(string(written), line) {
			t.Errorf("%s lacks %q: run make test-upstream with UPSTREAM_WRITE=1", page, line)
		}
	}
}
