// SPDX-License-Identifier: Apache-2.0

package patches

import "testing"

func TestApply(t *testing.T) {
	const text = "begin; a(1); keep; a(2); keep; end"
	tests := map[string]struct {
		edit Edit
		want string // empty if Apply must fail
	}{
		"up to a text":              {Edit{From: "a(", To: "keep"}, "begin; keep; a(2); keep; end"},
		"every time":                {Edit{From: "a(", To: "keep", All: true}, "begin; keep; keep; end"},
		"from a text on":            {Edit{After: "keep", From: "a(", To: "keep"}, "begin; a(1); keep; keep; end"},
		"the text alone":            {Edit{From: "a(1)", With: "b()"}, "begin; b(); keep; a(2); keep; end"},
		"upstream changed":          {Edit{From: "c("}, ""},
		"upstream changed the end":  {Edit{From: "a(", To: "c("}, ""},
		"upstream changed the step": {Edit{After: "c(", From: "a("}, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got, err := Patch{File: "x.go", Edits: []Edit{test.edit}}.Apply(text)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
