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

// page is updated if UPSTREAM_WRITE is set and all running specs have passed.
var page = filepath.Join(root, "docs", "development", "upstream.md")

// mark begins the part of the page that a run writes: first the specs that run, then the others.
const (
	mark   = "| Spec | Here | Seconds | |\n| --- | --- | --- | --- |\n"
	others = "\n[catalogue_test.go](../../test/upstream/catalogue_test.go) names the specs that do not run. Their reasons, with the number of specs:\n\n"
)

// notRun returns the page's lines for specs that do not run: one for each reason, in the order of the catalogue.
func notRun() []string {
	var reasons, lines []string
	specs := map[string]int{}
	for _, r := range catalogue {
		if r.runs {
			continue
		}
		if specs[r.why] == 0 {
			reasons = append(reasons, r.why)
		}
		specs[r.why]++
	}
	for _, why := range reasons {
		lines = append(lines, fmt.Sprintf("- %d: %s\n", specs[why], why))
	}
	return lines
}

// runs is the number of recent complete runs whose durations are on the page.
const runs = 3

// line returns the spec's row of the page, with the duration of this run added.
func (r row) line(before, result string, took time.Duration) string {
	var seconds []string
	earlier := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(r.text) + ` \| [^|]*\| ([0-9, ]+) \|`).FindStringSubmatch(before)
	if earlier != nil {
		seconds = strings.Split(earlier[1], ", ")
	}
	seconds = append(seconds, fmt.Sprintf("%.0f", took.Seconds()))
	seconds = seconds[max(0, len(seconds)-runs):]
	return fmt.Sprintf("| %s | %s | %s | %s |\n", r.text, result, strings.Join(seconds, ", "), r.why)
}

// kind returns how the spec runs.
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
	var table strings.Builder
	took, complete := map[string]time.Duration{}, report.SuiteSucceeded
	fmt.Fprintf(&table, "\n%-125s %-15s %-8s %s\n", "SPEC", "HERE", "RESULT", "SECONDS")
	for _, r := range catalogue {
		result, seconds := "", ""
		if i := slices.IndexFunc(report.SpecReports, func(s types.SpecReport) bool {
			return s.LeafNodeType == types.NodeTypeIt && s.ContainerHierarchyTexts[0] == r.text
		}); i >= 0 {
			spec := report.SpecReports[i]
			result = spec.State.String()
			complete = complete && spec.State == types.SpecStatePassed
			if spec.State != types.SpecStateSkipped {
				took[r.text] = spec.RunTime
				seconds = fmt.Sprintf("%.0f", spec.RunTime.Seconds())
			}
		}
		fmt.Fprintf(&table, "%-125s %-15s %-8s %s\n", r.text, r.kind(), result, seconds)
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
	if err := writePage(took); err != nil {
		Fail(err.Error())
	}
})

// writePage replaces the tables at the end of the page.
func writePage(took map[string]time.Duration) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, tables, found := strings.Cut(string(text), mark)
	if !found {
		return fmt.Errorf("%s has no table", page)
	}
	var rows strings.Builder
	for _, r := range catalogue {
		if r.runs {
			rows.WriteString(r.line(tables, r.kind(), took[r.text]))
		}
	}
	return os.WriteFile(page, []byte(before+mark+rows.String()+others+strings.Join(notRun(), "")), 0o600)
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
			t.Errorf("upstream no longer has the spec %q", r.text)
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
