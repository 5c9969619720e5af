// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestReport checks that the verdict is the worst effect of all failures, and that both formats agree.
func TestReport(t *testing.T) {
	for verdict, failures := range map[Effect][]string{
		Works:       {"errors/requestId differs between requests"},
		NeedsPerson: {"errors/requestId differs between requests", "gap/created id"},
		Fails:       {"gap/created id", "endpoints/POST kubernetes-clusters"},
	} {
		r := results{"login/token is a JWT": {}, "limits/a burst of 50": {skipped: "counts"}}
		for _, name := range failures {
			r[name] = &attempt{failures: []string{"a | b"}}
		}
		out := newReport("https://portal.example", r, map[string]string{"list": "bare"}, []string{"cluster x"})
		text := out.Markdown()
		if out.Verdict != verdict || !strings.Contains(text, out.Summary) {
			t.Errorf("%v: verdict %q: %s", failures, out.Verdict, out.Summary)
		}
		for _, has := range append(failures, `a \| b`, "| list | bare |", "- cluster x", "| `limits/a burst of 50` | counts |", "not found out") {
			if !strings.Contains(text, has) {
				t.Errorf("the Markdown lacks %q:\n%s", has, text)
			}
		}
		content, err := json.Marshal(out)
		var back Report
		if err != nil || json.Unmarshal(content, &back) != nil || len(back.Failed) != len(failures) || back.Failed[0].Says == nil && strings.HasPrefix(failures[0], "errors/") {
			t.Errorf("%s, %v", content, err)
		}
	}
	if out := newReport("", nil, nil, nil); !strings.Contains(out.Summary, "No check") {
		t.Errorf("nothing was checked: %s", out.Summary)
	}
}
