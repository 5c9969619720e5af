// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const runbooks = "https://github.com/capportal/cluster-api-provider-portal/blob/main/" + troubleshooting + "#"

var (
	alertName  = regexp.MustCompile(`(?m)^ *- alert: (\w+)$`)
	runbookURL = regexp.MustCompile(`runbook_url: (\S+)`)
)

// TestEveryAlertIsExplained checks that the page's table and the rules have the same alerts, and that the sections exist to which the rules
// link.
func TestEveryAlertIsExplained(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, "config", "metrics", "rules", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p := read(t, troubleshooting)
	got := explained(t, p.section(t, "Alerts"))
	alerts := alertName.FindAllStringSubmatch(string(raw), -1)
	for _, alert := range alerts {
		if got[alert[1]] == 0 {
			t.Errorf("%s does not explain the alert %s", troubleshooting, alert[1])
		}
	}
	if len(got) != len(alerts) {
		t.Errorf("%s explains the alerts %v, but the rules have %d", troubleshooting, got, len(alerts))
	}
	links := runbookURL.FindAllStringSubmatch(string(raw), -1)
	for _, link := range links {
		if section, ours := strings.CutPrefix(link[1], runbooks); !ours || !p.anchors()[section] {
			t.Errorf("%s names no heading of %s", link[1], troubleshooting)
		}
	}
	if len(alerts) == 0 || len(links) != len(alerts) {
		t.Errorf("%d alerts have %d links", len(alerts), len(links))
	}
}
