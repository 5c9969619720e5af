// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// ofClusterAPI are the conditions and reasons for which the provider uses Cluster API's own constants.
var ofClusterAPI = map[string][]string{
	"Conditions": {
		clusterv1.PausedCondition, clusterv1.DeletingCondition,
		clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition,
	},
	"Reasons": {
		clusterv1.NotDeletingReason, clusterv1.NotRollingOutReason, clusterv1.NotScalingUpReason, clusterv1.NotScalingDownReason,
		clusterv1.PausedReason, clusterv1.NotPausedReason, conditions.NotYetReportedReason,
	},
}

var stringConstant = regexp.MustCompile(`(?m)^(?:const |\t)(\w+) +(?:\w+ +)?= "(\w+)"`)

// TestEveryReasonIsExplained checks that the page's tables and the constants have the same names.
func TestEveryReasonIsExplained(t *testing.T) {
	p := read(t, reference)
	for heading, name := range map[string]string{"Conditions": `Condition$`, "Reasons": `Reason$`, "Events": `^Event`} {
		want := slices.Clone(ofClusterAPI[heading])
		for _, file := range files(t, "api/v1beta1/*.go") {
			for _, declared := range stringConstant.FindAllStringSubmatch(source(t, file), -1) {
				if regexp.MustCompile(name).MatchString(declared[1]) {
					want = append(want, declared[2])
				}
			}
		}
		slices.Sort(want)
		same(t, heading, slices.Compact(want), explained(t, p.section(t, heading)))
		if len(want) < 5 {
			t.Errorf("only %v are declared: is this the right directory?", want)
		}
	}
}

var row = regexp.MustCompile("(?m)^\\| *((?:`[A-Za-z]+`(?:, )?)+) *\\|(.*)\\|$")

// explained returns the names in the first cells of a section's tables, sorted. It fails the test for a row with an empty cell.
func explained(t *testing.T, section string) (names []string) {
	t.Helper()
	for _, found := range row.FindAllStringSubmatch(section, -1) {
		for cell := range strings.SplitSeq(found[2], "|") {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("the row of %s has an empty cell", found[1])
			}
		}
		for _, name := range codeSpan.FindAllStringSubmatch(found[1], -1) {
			names = append(names, name[1])
		}
	}
	slices.Sort(names)
	return names
}

const runbooks = "https://github.com/capportal/cluster-api-provider-portal/blob/main/"

var (
	alertName  = regexp.MustCompile(`(?m)^ *- alert: (\w+)$`)
	runbookURL = regexp.MustCompile(`runbook_url: (\S+)`)
)

// TestEveryAlertIsExplained checks that the page's table and the rules have the same alerts, and that the sections exist to which the rules
// link.
func TestEveryAlertIsExplained(t *testing.T) {
	rules := source(t, "config/metrics/rules/rules.yaml")
	var alerts []string
	for _, alert := range alertName.FindAllStringSubmatch(rules, -1) {
		alerts = append(alerts, alert[1])
	}
	slices.Sort(alerts)
	same(t, "alerts", alerts, explained(t, read(t, reference).section(t, "Alert rules")))
	links := runbookURL.FindAllStringSubmatch(rules, -1)
	for _, link := range links {
		file, section, _ := strings.Cut(strings.TrimPrefix(link[1], runbooks), "#")
		if !strings.HasPrefix(link[1], runbooks) || !read(t, file).has(section) {
			t.Errorf("%s names no heading of a page", link[1])
		}
	}
	if len(alerts) == 0 || len(links) != len(alerts) {
		t.Errorf("%d alerts have %d links", len(alerts), len(links))
	}
}

var (
	apiType  = regexp.MustCompile(`(?ms)^type (\w+) struct \{\n(.*?)^\}`)
	apiField = regexp.MustCompile("(?m)^\t\\w+ +\\S+ +`json:\"([a-zA-Z]+)")
	apiValue = regexp.MustCompile(`(?m)^\t\w+ +(\w+) += "(\w+)"`)
	apiEnum  = regexp.MustCompile(`(?m)^// \+kubebuilder:validation:Enum=\S+\ntype (\w+) string`)
)

// TestReferenceIsComplete checks that docs/reference.md has every field of the types in api, and every value of a string type with constants. Its
// generator leaves out a field whose type it does not know, without an error.
func TestReferenceIsComplete(t *testing.T) {
	sections := map[string]string{}
	for _, section := range regexp.MustCompile(`(?m)^##+ `).Split(source(t, reference), -1) {
		name, body, _ := strings.Cut(section, "\n")
		sections[name] = body
	}
	found := 0
	want := func(section, text string) {
		if found++; !strings.Contains(sections[section], text) {
			t.Errorf("section %s of docs/reference.md lacks %q", section, text)
		}
	}
	for _, file := range files(t, "api/v1beta1/*_types.go") {
		text := source(t, file)
		for _, declared := range apiType.FindAllStringSubmatch(text, -1) {
			for _, field := range apiField.FindAllStringSubmatch(declared[2], -1) {
				if !strings.HasSuffix(declared[1], "List") && field[1] != "metadata" {
					want(declared[1], "\n| `"+field[1]+"`<br />")
				}
			}
		}
		for _, value := range apiValue.FindAllStringSubmatch(text, -1) {
			want(value[1], "\n| `"+value[2]+"` |")
		}
		for _, enum := range apiEnum.FindAllStringSubmatch(text, -1) {
			want(enum[1], "| Value |") // declare a constant for each
		}
	}
	if found < 90 {
		t.Errorf("only %d fields and values were found", found)
	}
}
