// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

func readPages(t *testing.T) Pages {
	t.Helper()
	pages, err := ReadPages(root)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestNames checks that Flux and Argo CD fail for the same reasons, and that the API or core has every name in the checks.
func TestNames(t *testing.T) {
	pages := readPages(t)
	var source strings.Builder
	for _, pattern := range []string{filepath.Join(root, "api", "v1beta1", "*.go"), filepath.Join(coreTypes(t), "*.go")} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	flux := pages.Reasons()
	if len(flux) == 0 {
		t.Fatal("the checks for Flux name no reason")
	}
	if argo := reasonsIn(pages.argoCD); !slices.Equal(flux, argo) {
		t.Errorf("Flux fails for %v, Argo CD for %v", flux, argo)
	}
	for _, name := range slices.Concat(flux, Conditions) {
		if !regexp.MustCompile(`(?:Reason|Condition)\s+= "` + name + `"`).MatchString(source.String()) {
			t.Errorf("neither the API nor core has %s", name)
		}
	}
}

// coreTypes returns the folder of core's types.
func coreTypes(t *testing.T) string {
	t.Helper()
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api/api/core/v1beta2").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(folder))
}
