// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// sample is one object that a release has written.
type sample struct {
	*unstructured.Unstructured
	release, file string
}

// ours reports whether the object's kind belongs to this provider.
func (s sample) ours() bool { return s.GroupVersionKind().Group == infrav1.GroupVersion.Group }

func (s sample) String() string {
	return s.release + "/" + s.file + ": " + s.GetKind() + " " + s.GetName()
}

// releases returns the releases that have samples.
func releases(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil || len(entries) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// samples returns all objects of a release.
func samples(t *testing.T, release string) []sample {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", release, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples of %s: %v", release, err)
	}
	var all []sample
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range parse(t, text) {
			all = append(all, sample{Unstructured: o, release: release, file: filepath.Base(file)})
		}
	}
	return all
}

// parse reads the documents of a YAML file.
func parse(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		case len(o.Object) > 0:
			all = append(all, o)
		}
	}
}
