// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
)

const reference = "docs/reference.md"

// ofClusterAPI are the conditions that use Cluster API's own constants.
var ofClusterAPI = []string{
	clusterv1.PausedCondition, clusterv1.DeletingCondition,
	clusterv1.RollingOutCondition, clusterv1.ScalingUpCondition, clusterv1.ScalingDownCondition,
}

// reasonsOfClusterAPI are Cluster API's own constants that the provider writes.
var reasonsOfClusterAPI = []string{
	clusterv1.NotDeletingReason, clusterv1.NotRollingOutReason, clusterv1.NotScalingUpReason, clusterv1.NotScalingDownReason,
	clusterv1.PausedReason, clusterv1.NotPausedReason, conditions.NotYetReportedReason,
}

// TestEveryReasonIsExplained checks that the page's tables and the constants have the same names.
func TestEveryReasonIsExplained(t *testing.T) {
	constants := stringConstants(t)
	tests := map[string]struct {
		is   func(name string) bool
		more []string
	}{
		"Conditions": {is: func(name string) bool { return strings.HasSuffix(name, "Condition") }, more: ofClusterAPI},
		"Reasons":    {is: func(name string) bool { return strings.HasSuffix(name, "Reason") }, more: reasonsOfClusterAPI},
		"Events":     {is: func(name string) bool { return strings.HasPrefix(name, "Event") }},
	}
	p := read(t, reference)
	for heading, test := range tests {
		t.Run(heading, func(t *testing.T) {
			want := slices.Clone(test.more)
			for name, value := range constants {
				if test.is(name) {
					want = append(want, value)
				}
			}
			if len(want) < 5 {
				t.Fatalf("only %v are declared: is this the right directory?", want)
			}
			got := explained(t, p.section(t, heading))
			for _, value := range want {
				if got[value] == 0 {
					t.Errorf("%s does not explain %q", reference, value)
				}
			}
			for value := range got {
				if !slices.Contains(want, value) {
					t.Errorf("%s explains %q, which does not exist", reference, value)
				}
			}
		})
	}
}

var row = regexp.MustCompile("(?m)^\\| *((?:`[A-Za-z]+`(?:, )?)+) *\\|(.*)\\|$")

// explained returns how often each name appears in the first cells of a section's tables. It fails the test for a row with an empty cell.
func explained(t *testing.T, section string) map[string]int {
	t.Helper()
	names := map[string]int{}
	for _, found := range row.FindAllStringSubmatch(section, -1) {
		for cell := range strings.SplitSeq(found[2], "|") {
			if strings.TrimSpace(cell) == "" {
				t.Errorf("the row of %s has an empty cell", found[1])
			}
		}
		for _, name := range codeSpan.FindAllStringSubmatch(found[1], -1) {
			names[name[1]]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] > 1 {
			t.Errorf("%s is explained %d times", name, names[name])
		}
	}
	return names
}

var stringConstant = regexp.MustCompile(`(?m)^(?:const |\t)(\w+) +(?:\w+ +)?= "(\w+)"`)

// stringConstants returns the words that the API declares as constants, by the names of the constants.
func stringConstants(t *testing.T) map[string]string {
	t.Helper()
	constants := map[string]string{}
	for _, file := range files(t, "api/v1beta1/*.go") {
		for _, declared := range stringConstant.FindAllStringSubmatch(source(t, file), -1) {
			constants[declared[1]] = declared[2]
		}
	}
	return constants
}
