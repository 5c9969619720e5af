// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"path/filepath"
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
		r := newResult()
		r.note("login/token is a JWT", false, &ended{})
		r.note("limits/a burst of 50", false, &ended{skipped: "counts"})
		for _, name := range failures {
			r.note(name, true, &ended{failures: []string{"a | b"}})
		}
		out := newReport("https://portal.example", r, map[string]string{"list": "bare"}, []string{"cluster x"})
		text := out.markdown()
		if out.Verdict != verdict || !strings.Contains(text, out.Summary) {
			t.Errorf("%v: verdict %q: %s", failures, out.Verdict, out.Summary)
		}
		for _, has := range append(failures, `a \| b`, "| list | bare |", "- cluster x", "| `limits/a burst of 50` | counts |", "not found out") {
			if !strings.Contains(text, has) {
				t.Errorf("the Markdown lacks %q:\n%s", has, text)
			}
		}
		content, err := json.Marshal(out)
		var back report
		if err != nil || json.Unmarshal(content, &back) != nil || len(back.Failed) != len(failures) || back.Failed[0].Says == nil && strings.HasPrefix(failures[0], "errors/") {
			t.Errorf("%s, %v", content, err)
		}
	}
	if out := newReport("", nil, nil, nil); !strings.Contains(out.Summary, "No check") {
		t.Errorf("nothing was checked: %s", out.Summary)
	}
}

// TestReportsAreWritten checks that the reports are written to the files that the flags name.
func TestReportsAreWritten(t *testing.T) {
	defer func(json, md string) { *reportJSON, *reportMD = json, md }(*reportJSON, *reportMD)
	*reportJSON, *reportMD = filepath.Join(t.TempDir(), "r.json"), filepath.Join(t.TempDir(), "r.md")
	writeReports(t, newReport("https://portal.example", newResult(), nil, nil))
	for _, pattern := range []string{*reportJSON, *reportMD} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", pattern, found, err)
		}
	}
}
