// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestArtifacts checks that a release has all files, and that its PrometheusRule has the rules of the plain file.
func TestArtifacts(t *testing.T) {
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "make", "-C", root, "-s", "release-manifests", "RELEASE="+dir)
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // set by a make that runs this test
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS")
	})
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("make release-manifests: %v\n%s", err, out)
	}
	sources := map[string]string{
		"prometheus-rules.yaml":          "rules/rules.yaml",
		"kube-state-metrics-config.yaml": "kube-state-metrics/config.yaml",
		"kube-state-metrics-role.yaml":   "kube-state-metrics/role.yaml",
	}
	for _, d := range readDashboards(t) {
		sources["dashboard-"+d.name+".json"] = "dashboards/" + d.name + ".json"
	}
	for artifact, source := range sources {
		if got, want := readFile(t, filepath.Join(dir, artifact)), readFile(t, filepath.Join(root, "config", "metrics", source)); string(got) != string(want) {
			t.Errorf("%s differs from %s", artifact, source)
		}
	}
	var operator struct {
		Kind string
		Spec map[string]any
	}
	var plain map[string]any
	if err := yaml.Unmarshal(readFile(t, filepath.Join(dir, "prometheusrule.yaml")), &operator); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(readFile(t, rulesFile), &plain); err != nil {
		t.Fatal(err)
	}
	if operator.Kind != "PrometheusRule" || !reflect.DeepEqual(operator.Spec, plain) {
		t.Errorf("the %s has\n%v\nwant\n%v", operator.Kind, operator.Spec, plain)
	}
}
