// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
)

// check tests whether a portal follows a statement.
type check struct {
	name string
	run  func(p *probe)
}

// checks returns the checks in the order in which they run at a real portal. Checks share resources, and the last ones delete them.
func checks() []check {
	return slices.Concat(serviceChecks, loginChecks, tokenChecks, resetChecks, networkChecks, createChecks, jobChecks,
		errorChecks, refusalChecks, clusterChecks, gapChecks, endChecks, limitChecks, clientChecks)
}

// Run runs the checks at a portal, one after the other, and writes the result of each to out. When ctx ends, the remaining checks are
// skipped. In any case it deletes the clusters that were created. An error means that the portal could not be checked.
func Run(ctx context.Context, o Options, out io.Writer) (*Report, error) {
	s, err := described(o)
	if err != nil {
		return nil, err
	}
	if err := s.acquaint(); err != nil {
		return nil, err
	}
	return s.run(ctx, out), nil
}

// results holds the attempts of the checks that ran, by name.
type results map[string]*attempt

func (s *site) run(ctx context.Context, out io.Writer) *Report {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) } // the report has it all, too
	r := results{}
	for _, c := range checks() {
		if !s.Checks.MatchString(c.name) {
			continue
		}
		a := &attempt{skipped: "interrupted"}
		if ctx.Err() == nil {
			a = s.try(c.run)
		}
		r[c.name] = a
		say("%-8s %s\n", a.outcome(), c.name)
		for _, detail := range a.details() {
			say("         %s\n", detail)
		}
	}
	report := newReport(s.URL, r, s.shapes, s.tidy())
	say("\n%s\n%s\n", report.counts(), report.Summary)
	for _, what := range report.Left {
		say("Left behind: %s\n", what)
	}
	return report
}

// attempt is one run of a check, with what it found.
type attempt struct {
	mu       sync.Mutex // a check may send requests at the same time
	failures []string
	skipped  string // why the check was skipped
}

// try runs a check, or a part of one. It needs a goroutine of its own, because Fatal and skip end the goroutine. A panic is a failure, so that
// the clusters are deleted after it.
func (s *site) try(do func(*probe)) *attempt {
	a := &attempt{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if problem := recover(); problem != nil {
				a.Errorf("the check does not understand the portal: %v", problem)
			}
		}()
		do(&probe{attempt: a, site: s})
	}()
	<-done
	return a
}

// Error records a failure.
func (a *attempt) Error(args ...any) { a.Errorf("%s", fmt.Sprint(args...)) }

// Errorf records a failure.
func (a *attempt) Errorf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, fmt.Sprintf(format, args...))
}

// Fatal records a failure and ends the check.
func (a *attempt) Fatal(args ...any) { a.Error(args...); runtime.Goexit() }

// Fatalf records a failure and ends the check.
func (a *attempt) Fatalf(format string, args ...any) { a.Errorf(format, args...); runtime.Goexit() }

// skip ends the check and records the reason.
func (a *attempt) skip(why string) { a.skipped = why; runtime.Goexit() }

// outcome is the result of a check. It is empty for a check that did not run.
type outcome string

// The outcomes of a check that ran.
const (
	passed  outcome = "passed"
	failed  outcome = "failed"
	skipped outcome = "skipped"
)

func (a *attempt) outcome() outcome {
	switch {
	case a == nil:
		return ""
	case len(a.failures) > 0:
		return failed
	case a.skipped != "":
		return skipped
	}
	return passed
}

// details returns the messages of the failures, or why the check was skipped.
func (a *attempt) details() []string {
	if a.outcome() == skipped {
		return []string{a.skipped}
	}
	return a.failures
}
