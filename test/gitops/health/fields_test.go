// SPDX-License-Identifier: Apache-2.0

package health

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestFields checks that the table has every kind of the provider, and each field of its spec once.
func TestFields(t *testing.T) {
	table, err := readPages(t).Fields()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		definition := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, &definition); err != nil {
			t.Fatal(err)
		}
		kind := definition.Spec.Names.Kind
		row, found := table[kind]
		if !found {
			t.Errorf("docs/reference.md has no row for %s", kind)
			continue
		}
		listed := slices.Concat(row.User, row.Filled, row.Provider, row.Core)
		for field := range definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
			count := 0
			for _, f := range listed {
				if f == "spec."+field {
					count++
				}
			}
			if count != 1 {
				t.Errorf("docs/reference.md has spec.%s of %s %d times, want once", field, kind, count)
			}
		}
	}
	if len(table) != len(files) {
		t.Errorf("docs/reference.md has %d rows, and the provider has %d kinds", len(table), len(files))
	}
}
