// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"
)

const runbooks = "https://github.com/capportal/cluster-api-provider-portal/blob/main/"

var (
	alertName  = regexp.MustCompile(`(?m)^ *- alert: (\w+)$`)
	runbookURL = regexp.MustCompile(`runbook_url: (\S+)`)
)

// TestEveryAlertIsExplained checks that the page's table and the rules have the same alerts, and that the sections exist to which the rules
// link.
func TestEveryAlertIsExplained(t *testing.T) {
	rules := source(t, "config/metrics/rules/rules.yaml")
	p := read(t, reference)
	got := explained(t, p.section(t, "Alert rules"))
	alerts := alertName.FindAllStringSubmatch(rules, -1)
	for _, alert := range alerts {
		if got[alert[1]] == 0 {
			t.Errorf("%s does not explain the alert %s", reference, alert[1])
		}
	}
	if len(got) != len(alerts) {
		t.Errorf("%s explains the alerts %v, but the rules have %d", reference, got, len(alerts))
	}
	links := runbookURL.FindAllStringSubmatch(rules, -1)
	for _, link := range links {
		file, section, _ := strings.Cut(strings.TrimPrefix(link[1], runbooks), "#")
		if !strings.HasPrefix(link[1], runbooks) || !read(t, file).anchors()[section] {
			t.Errorf("%s names no heading of a page", link[1])
		}
	}
	if len(alerts) == 0 || len(links) != len(alerts) {
		t.Errorf("%d alerts have %d links", len(alerts), len(links))
	}
}
