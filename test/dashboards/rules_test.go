// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"os/exec"
	"testing"

	"sigs.k8s.io/yaml"
)

const casesFile = "rules.test.yaml"

// TestRules checks the rules and runs their cases with promtool.
func TestRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool not found, so the rules are not checked: run make test-dashboards, which installs Debian's package prometheus")
	}
	for _, arguments := range [][]string{{"check", "rules", "--lint-fatal", rulesFile}, {"test", "rules", casesFile}} {
		if out, err := exec.CommandContext(t.Context(), promtool, arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, out)
		}
	}
}

// TestEveryAlertHasCases checks that each alert fires in one case and stays silent in another.
func TestEveryAlertHasCases(t *testing.T) {
	var cases struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(readFile(t, casesFile), &cases); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, group := range cases.Tests {
		for _, c := range group.AlertRuleTest {
			if len(c.ExpAlerts) > 0 {
				fires[c.Alertname] = true
			} else {
				silent[c.Alertname] = true
			}
		}
	}
	alerts := 0
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts++
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: has a case in which it fires: %t, in which it is silent: %t", r.Alert, fires[r.Alert], silent[r.Alert])
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no severity, summary or description", r.Alert)
		}
	}
	if alerts < 7 {
		t.Errorf("only %d alerts were found", alerts)
	}
}
