// SPDX-License-Identifier: Apache-2.0

package arrow

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestTiltProvider checks that Cluster API's Tilt setup finds what tilt-provider.yaml names: the image of the Deployment, the folders, and
// all packages of the manager, which it builds again when one of them changes.
func TestTiltProvider(t *testing.T) {
	var provider struct {
		Name   string
		Config struct {
			Image, Label string
			Main         string   `json:"go_main"`
			LiveReload   []string `json:"live_reload_deps"`
			Kustomize    string   `json:"kustomize_folder"`
		}
	}
	if err := yaml.UnmarshalStrict(content(t, "tilt-provider.yaml"), &provider); err != nil {
		t.Fatal(err)
	}
	c := provider.Config
	for _, path := range append(c.LiveReload, filepath.Join(c.Kustomize, "kustomization.yaml")) {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(string(content(t, "config/manager/manager.yaml")), "image: "+c.Image+":") {
		t.Errorf("the Deployment has another image than %s", c.Image)
	}
	sources, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dependency := range dependencies(t, module) {
		if inside, ours := strings.CutPrefix(dependency, module+"/"); ours {
			sources = append(sources, filepath.Join(root, inside))
		}
	}
	for _, source := range sources {
		name, _, _ := strings.Cut(strings.TrimPrefix(source, root+"/"), "/")
		if !strings.HasSuffix(name, "_test.go") && !slices.Contains(c.LiveReload, name) {
			t.Errorf("Tilt would not build the manager when %s changes", source)
		}
	}
}

// content returns a file of the repository.
func content(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
