// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestArrow: the emulator knows neither the client (a wrong JSON tag would be wrong on both sides, and every test
// would pass) nor Kubernetes.
func TestArrow(t *testing.T) {
	const module = "github.com/capportal/cluster-api-provider-portal/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		host, _, _ := strings.Cut(dep, "/")
		if strings.HasSuffix(host, "k8s.io") || strings.HasPrefix(dep, module) && dep != module+"cloud/emulator" {
			t.Errorf("the emulator imports %s", dep)
		}
	}
}

// TestDefaultVersions are those that workload clusters can be built with.
func TestDefaultVersions(t *testing.T) {
	content, err := os.ReadFile("workload/versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, got := []string{}, []string{}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	for _, v := range emulator.DefaultVersions() {
		got = append(got, v.SemanticVersion)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
