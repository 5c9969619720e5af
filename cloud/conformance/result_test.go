// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// result holds the outcomes of the checks.
type result struct {
	ended   map[string]outcome
	skipped map[string]string // check → reason
	failed  map[string][]string
}

type outcome int

// The outcomes of a check. A check that -run did not select has none.
const (
	unrun outcome = iota
	passed
	failed
	skipped
)

func newResult() *result {
	return &result{ended: map[string]outcome{}, skipped: map[string]string{}, failed: map[string][]string{}}
}

func (r *result) note(check string, fails bool, e *ended) {
	switch {
	case fails:
		r.ended[check], r.failed[check] = failed, e.failures
	case e.skipped != "":
		r.ended[check], r.skipped[check] = skipped, e.skipped
	default:
		r.ended[check] = passed
	}
}

func (r *result) passed(check string) bool { return r.ended[check] == passed }

// count holds how many statements had each outcome.
type count struct {
	statements, passed, failed, skipped, unrun, reasoned int
	why                                                  map[string]int // statements skipped for a reason
}

func (r *result) count() count {
	c := count{why: map[string]int{}}
	for _, section := range specification() {
		for _, s := range section.statements {
			c.statements++
			switch {
			case s.check == "":
				c.reasoned++
			case r.ended[s.check] == passed:
				c.passed++
			case r.ended[s.check] == failed:
				c.failed++
			case r.ended[s.check] == skipped:
				c.skipped++
				c.why[r.skipped[s.check]]++
			default:
				c.unrun++
			}
		}
	}
	return c
}

// String returns the counts as a sentence, with the reasons for skipped statements.
func (r *result) String() string {
	c := r.count()
	var b strings.Builder
	fmt.Fprintf(&b, "%d statements: %d passed, %d failed, %d skipped, %d not run, %d with a stated reason for no check",
		c.statements, c.passed, c.failed, c.skipped, c.unrun, c.reasoned)
	for _, why := range slices.Sorted(maps.Keys(c.why)) {
		fmt.Fprintf(&b, "\n  %d skipped: %s", c.why[why], why)
	}
	return b.String()
}
