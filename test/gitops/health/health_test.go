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

func readPage(t *testing.T) Page {
	t.Helper()
	page, err := ReadPage(filepath.Join(root, "docs", "gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// TestNames checks that Flux and Argo CD fail for the same reasons, and that the API or core has every name in the snippets.
func TestNames(t *testing.T) {
	page := readPage(t)
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
	flux, err := page.Reasons("### Flux")
	if err != nil || len(flux) == 0 {
		t.Fatal(flux, err)
	}
	if argo, err := page.Reasons("### Argo CD"); err != nil || !slices.Equal(flux, argo) {
		t.Errorf("Flux fails for %v, Argo CD for %v, %v", flux, argo, err)
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
