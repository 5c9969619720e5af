// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"
)

// TestMapping checks that each row and rule of the specification has a statement, that each statement has a check or a reason, and that
// each check has a statement.
func TestMapping(t *testing.T) {
	named := map[string]bool{}
	for _, c := range checks() {
		if named[c.name] {
			t.Errorf("check %q exists twice", c.name)
		}
		named[c.name] = true
	}
	mapped, said := map[string]bool{}, map[string]bool{}
	for _, section := range specification() {
		items := map[string]bool{}
		for _, s := range section.statements {
			if problem := s.problem(named); problem != "" {
				t.Errorf("%s, %s, %q: %s", section.title, s.item, s.says, problem)
			}
			if key := section.title + s.item + s.says; said[key] {
				t.Errorf("%s, %s, %q exists twice", section.title, s.item, s.says)
			} else {
				said[key] = true
			}
			mapped[s.check] = true
			if s.item != "-" {
				items[s.item] = true
			}
		}
		if len(items) != section.items {
			t.Errorf("%s has %d rows or rules, statements cover %d", section.title, section.items, len(items))
		}
	}
	for _, s := range Gaps() {
		if !named["gap/"+s.Name] {
			t.Errorf("no check finds out how a portal fills %q", s.Name)
		}
		mapped["gap/"+s.Name] = true
	}
	for name := range named {
		if effectOf(name) == "" {
			t.Errorf("no effect says what a failure of %q means for the provider", name)
		}
		if !mapped[name] {
			t.Errorf("check %q belongs to no statement", name)
		}
	}
}

func (s statement) problem(checks map[string]bool) string {
	switch {
	case s.item == "" || s.says == "":
		return "it says nothing"
	case s.check == "" && s.none == "":
		return "neither check nor reason"
	case s.check != "" && s.none != "":
		return "both a check and a reason why there is none"
	case s.check != "" && !checks[s.check]:
		return "there is no check " + s.check
	}
	return ""
}
