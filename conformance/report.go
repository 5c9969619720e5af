// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Report is the result for the portal's operator: whether the provider will work, and what to report to the provider's authors if it will
// not.
type Report struct {
	Portal  string        `json:"portal"`
	Verdict Effect        `json:"verdict"`
	Summary string        `json:"summary"`
	Failed  []checkReport `json:"failed"`
	Skipped []checkReport `json:"skipped"`
	Passed  []string      `json:"passed"`
	Gaps    []gapReport   `json:"gaps"`
	Left    []string      `json:"left"`
}

type checkReport struct {
	Check   string   `json:"check"`
	Says    []string `json:"says,omitempty"` // statements of the specification
	Details []string `json:"details,omitempty"`
	Effect  Effect   `json:"effect,omitempty"`
}

type gapReport struct {
	Gap   string `json:"gap"`
	Where string `json:"where"`
	Shape string `json:"shape"` // "" if it is unknown
}

// effects map checks to the effect of a failure on the provider. The first matching prefix counts. Most failures have no effect, because
// the provider does not depend on the checked behavior.
var effects = []struct {
	prefix string
	effect Effect
}{
	{"endpoints/POST reset-password", Works}, {"endpoints/POST admin", Works}, {"endpoints/DELETE volumes", Works},
	{"endpoints/GET instances", Works}, {"endpoints/POST networks", NeedsPerson}, {"endpoints/POST vpcs", Works},
	{"endpoints/", Fails},
	{"service/plain HTTP", Works}, {"service/", Fails},
	{"status/200", Fails}, {"status/201", NeedsPerson}, {"status/", NeedsPerson},
	{"versions/each has a state", Works}, {"versions/each is 1.27", Works}, {"versions/", Fails},
	{"vpcs/filter by name", NeedsPerson}, {"networks/", NeedsPerson},
	{"login/user.email", Works}, {"login/user.role", Works}, {"login/", Fails},
	{"authentication/a token lives", Works}, {"authentication/a pre-MFA token opens", Works},
	{"authentication/MFA with a wrong code", Works}, {"authentication/every protected", Works}, {"authentication/", Fails},
	{"create/without networkId", NeedsPerson}, {"create/size workers", Fails}, {"create/", Works},
	{"clusters/40 workers", Works}, {"clusters/delete leaves", Works}, {"clusters/upgrade is rolling", Works}, {"clusters/", Fails},
	{"jobs/202 comes before", Works}, {"jobs/always asynchronous", NeedsPerson}, {"jobs/error of", Works},
	{"jobs/202 carries", NeedsPerson}, {"jobs/", Fails},
	{"states/a busy cluster", Fails}, {"states/", Works},
	{"errors/requestId", Works}, {"errors/INVALID_TOKEN for a wrongly", Works}, {"errors/field", Works},
	{"errors/INVALID_TOKEN", NeedsPerson}, {"errors/", NeedsPerson},
	{"limits/50 workers", Works}, {"limits/429 with", NeedsPerson}, {"limits/", Works},
	{"client/", Fails},
}

// effectOf returns the effect of a failed check.
func effectOf(check string) Effect {
	if name, ok := strings.CutPrefix(check, "gap/"); ok {
		for _, s := range Gaps() {
			if s.Name == name {
				return s.Effect
			}
		}
	}
	for _, e := range effects {
		if strings.HasPrefix(check, e.prefix) {
			return e.effect
		}
	}
	return ""
}

// worse lists the effects, each worse than the one before.
var worse = []Effect{Works, NeedsPerson, Fails}

func newReport(portal string, r results, shapes map[string]string, left []string) *Report {
	out := &Report{Portal: portal, Verdict: Works, Left: left}
	says := statementsOf()
	for _, c := range checks() {
		line := checkReport{Check: c.name, Says: says[c.name]}
		switch a := r[c.name]; a.outcome() {
		case failed:
			line.Effect, line.Details = effectOf(c.name), a.details()
			out.Failed = append(out.Failed, line)
			if slices.Index(worse, line.Effect) > slices.Index(worse, out.Verdict) {
				out.Verdict = line.Effect
			}
		case skipped:
			line.Details = a.details()
			out.Skipped = append(out.Skipped, line)
		case passed:
			out.Passed = append(out.Passed, c.name)
		}
	}
	for _, s := range Gaps() {
		out.Gaps = append(out.Gaps, gapReport{Gap: s.Name, Where: s.Where, Shape: shapes[s.Name]})
	}
	out.Summary = summaries[out.Verdict]
	if len(out.Passed) == 0 {
		out.Summary = "No check has passed: nothing is known about this portal."
	}
	return out
}

var summaries = map[Effect]string{
	Works:       "As far as it was checked, the provider works with this portal.",
	NeedsPerson: "The provider works with this portal, but some events will need a person. The failed checks say which.",
	Fails:       "The provider will not work with this portal. Send this report to its authors, or correct what failed.",
}

func statementsOf() map[string][]string {
	out := map[string][]string{}
	for _, section := range specification() {
		for _, s := range section.statements {
			if s.check != "" {
				out[s.check] = append(out[s.check], section.title+": "+s.says)
			}
		}
	}
	return out
}

func (r *Report) counts() string {
	return fmt.Sprintf("Checks: %d passed, %d failed, %d skipped.", len(r.Passed), len(r.Failed), len(r.Skipped))
}

// Markdown returns the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Conformance of %s\n\n**%s** %s\n", r.Portal, r.Summary, r.counts())
	if len(r.Failed) > 0 {
		b.WriteString("\n## Failed\n\n| Check | The provider | What the specification says | What was seen |\n|---|---|---|---|\n")
		for _, c := range r.Failed {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Check, c.Effect, cell(c.Says), cell(c.Details))
		}
	}
	b.WriteString("\n## How this portal fills what the specification leaves open\n\n| Gap | Shape | Where |\n|---|---|---|\n")
	for _, s := range r.Gaps {
		shape := s.Shape
		if shape == "" {
			shape = "not found out"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.Gap, cell([]string{shape}), s.Where)
	}
	if len(r.Left) > 0 {
		b.WriteString("\n## Left behind\n\n")
		for _, what := range r.Left {
			fmt.Fprintf(&b, "- %s\n", what)
		}
	}
	if len(r.Skipped) > 0 {
		b.WriteString("\n## Skipped\n\n| Check | Why |\n|---|---|\n")
		for _, c := range r.Skipped {
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.Check, cell(c.Details))
		}
	}
	return b.String()
}

// cell formats texts for a cell of a Markdown table.
func cell(texts []string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(strings.Join(texts, "; "))
}
