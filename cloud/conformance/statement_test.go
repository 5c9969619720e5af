// SPDX-License-Identifier: Apache-2.0

package conformance

// statement is one thing that the specification says.
type statement struct {
	item  string // the table row, or the number of the rule, that says it; "-" for running text
	says  string // in our words
	check string // name of the check that holds a portal to it
	none  string // or the reason why there is none
}

// section is a table, a list of rules, or a passage of the specification. Each row and rule has at least one statement.
type section struct {
	title      string
	items      int // rows or rules it has
	statements []statement
}

// specification is everything that the specification says, in its order.
func specification() []section {
	var all []section
	for _, part := range [][]section{resourceSections, endpointSections, accessSections, errorSections} {
		all = append(all, part...)
	}
	return all
}

// Reasons that several statements share.
const (
	notShown  = "The specification says that it is not shown."
	noPath    = "The specification does not show the path or the body."
	advice    = "Advice to people. No request and no answer shows whether it is followed."
	inCluster = "It concerns workload clusters, not the REST API."
)
