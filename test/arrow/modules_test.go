// SPDX-License-Identifier: Apache-2.0

package arrow

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the repository.
const root = "../.."

// apart are the folders whose programs are not part of a sandbox or a test, with the reason for versions of their own.
var apart = map[string]string{
	"hack/flux":       "kustomize-controller is built as it was released, and only to install the provider by it",
	"hack/licenses":   "reads licences with the versions that it was released with",
	"hack/lint":       "the linters are built as they were released",
	"hack/monitoring": "kube-state-metrics is built as it was released, and only for the dashboards",
	"hack/operator":   "the Cluster API Operator is built as it was released, and only to install the provider by it",
	"hack/release":    "builds what a release needs, and nobody else",
	"hack/tools":      "golangci-lint and controller-gen are built as they were released",
}

// read returns the toolchain of a go.mod file, and the version with which each required module is built.
func read(t *testing.T, file string) (toolchain string, versions map[string]string) {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", file).Output()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var parsed struct {
		Toolchain string
		Require   []struct{ Path, Version string }
		Replace   []struct {
			Old, New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(out, &parsed); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	versions = map[string]string{}
	for _, required := range parsed.Require {
		versions[required.Path] = required.Version
	}
	for _, replaced := range parsed.Replace {
		if _, required := versions[replaced.Old.Path]; required {
			versions[replaced.Old.Path] = replaced.New.Version
		}
	}
	return parsed.Toolchain, versions
}

// TestVersions checks that all programs of a sandbox and all tests are built with one version of each module. Otherwise each dependency
// would be compiled several times, which takes minutes.
func TestVersions(t *testing.T) {
	toolchain, want := read(t, root+"/go.mod")
	files, err := filepath.Glob(filepath.Join(root, "*", "*", "go.mod"))
	if err != nil || len(files) < 3 {
		t.Fatalf("found only %v, %v", files, err)
	}
	unused := maps.Clone(apart)
	for _, file := range files {
		folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(file), root+"/"))
		if strings.HasPrefix(folder, "bin/") { // what was built, such as the previous release
			continue
		}
		delete(unused, folder)
		others, versions := read(t, file)
		if others != toolchain {
			t.Errorf("%s/go.mod has toolchain %q, and go.mod has %q", folder, others, toolchain)
		}
		for _, path := range slices.Sorted(maps.Keys(versions)) {
			if want[path] == "" && apart[folder] == "" {
				want[path] = versions[path] // the other folders have to have it too
			}
			if versions[path] != want[path] && apart[folder] == "" {
				t.Errorf("%s/go.mod has %s %s, and another go.mod has %s: run go get %s@%s in one of them, then go mod tidy, or add the folder to apart with a reason",
					folder, path, versions[path], want[path], path, want[path])
			}
		}
	}
	if len(unused) > 0 {
		t.Errorf("apart has %v, which have no go.mod any more", unused)
	}
}

// TestFollowsCore checks that the provider is built with the versions of Kubernetes' modules and of controller-runtime with which Cluster
// API's core is released, so that both are tested together.
func TestFollowsCore(t *testing.T) {
	file, err := exec.Command("go", "list", "-m", "-f", "{{.GoMod}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, core := read(t, strings.TrimSpace(string(file)))
	_, ours := read(t, root+"/go.mod")
	compared := 0
	for path, version := range ours {
		if core[path] == "" || !strings.HasPrefix(path, "k8s.io/") && path != "sigs.k8s.io/controller-runtime" {
			continue
		}
		compared++
		if version != core[path] {
			t.Errorf("go.mod has %s %s, and core's has %s", path, version, core[path])
		}
	}
	if compared < 8 {
		t.Errorf("only %d modules were compared", compared)
	}
}
