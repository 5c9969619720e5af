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

// mark begins the part of the page that a run writes: the table of the specs that run, and a sentence about the others.
const mark = "| Spec | Here | Seconds | |\n| --- | --- | --- | --- |\n"

// others returns the page's sentence about the specs that do not run.
func others() string {
	running := 0
	for _, r := range catalogue {
		if r.runs {
			running++
		}
	}
	return fmt.Sprintf("\n%d of upstream's %d specs do not run. [catalogue_test.go](../../test/upstream/catalogue_test.go) has the reasons.\n", len(catalogue)-running, len(catalogue))
}

// line returns the spec's row of the page.
func (r row) line(took time.Duration) string {
	return fmt.Sprintf("| %s | %s | %.0f | %s |\n", r.text, r.kind(), took.Seconds(), r.why)
}

// kind returns how the spec runs.
func (r row) kind() string {
	if len(r.patches) > 0 {
		return "runs, patched"
	}
	return "runs"
}

var _ = ReportAfterSuite("the page", func(report Report) {
	if os.Getenv("UPSTREAM_WRITE") == "" {
		return
	}
	took, complete := map[string]time.Duration{}, report.SuiteSucceeded
	for _, spec := range report.SpecReports {
		if spec.LeafNodeType == types.NodeTypeIt {
			complete = complete && spec.State == types.SpecStatePassed
			took[spec.ContainerHierarchyTexts[0]] = spec.RunTime
		}
	}
	if !complete {
		fmt.Println("docs/development/upstream.md is not written: not all specs that run have run and passed")
	} else if err := writePage(took); err != nil {
		Fail(err.Error())
	}
})

// writePage replaces the table at the end of the page.
func writePage(took map[string]time.Duration) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, _, found := strings.Cut(string(text), mark)
	if !found {
		return fmt.Errorf("%s has no table", page)
	}
	var rows strings.Builder
	for _, r := range catalogue {
		if r.runs {
			rows.WriteString(r.line(took[r.text]))
		}
	}
	return os.WriteFile(page, []byte(before+mark+rows.String()+others()), 0o600)
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
	if !writing && !strings.Contains(string(written), others()) {
		t.Errorf("%s lacks %q: run make test-upstream with UPSTREAM_WRITE=1", page, others())
	}
}
