// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestDefaultVersions checks that the default versions are those that workload clusters can run.
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
