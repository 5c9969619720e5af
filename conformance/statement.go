// SPDX-License-Identifier: Apache-2.0

package conformance

// statement is one requirement of the specification.
type statement struct {
	item  string // table row or number of the rule; "-" for running text
	says  string // in our words
	check string // name of the check
	none  string // or the reason why it has no check
}

// section is a table, a list of rules, or a passage of the specification. Each row and rule has at least one statement.
type section struct {
	title      string
	items      int // rows or rules it has
	statements []statement
}

// specification returns all statements in the specification's order.
func specification() []section {
	var all []section
	for _, part := range [][]section{resourceSections, endpointSections, accessSections, errorSections} {
		all = append(all, part...)
	}
	return all
}

// Reasons of several statements.
const (
	notShown  = "The specification says that it is not shown."
	noPath    = "The specification does not show the path or the body."
	advice    = "Advice to people. No request and no answer shows whether it is followed."
	inCluster = "It concerns workload clusters, not the REST API."
)
